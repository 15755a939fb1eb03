//! Reviews of who somebody is and what they may do, against a stand-in for an API server.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use cluster::{Reviews, Verdict};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Builder;

/// Knows `known` and `weak`, of whom the first may; doesn't let us ask where `asks` is false.
#[derive(Clone, Copy)]
struct Server {
    asks: bool,
}

async fn answer(State(server): State<Server>, uri: Uri, Json(mut review): Json<Value>) -> Response {
    if !server.asks {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden",
            "message": "who asks may not", "code": 403});
        return (StatusCode::FORBIDDEN, status.to_string()).into_response();
    }
    review["status"] = match uri.path() {
        "/apis/authentication.k8s.io/v1/tokenreviews" => match review["spec"]["token"].as_str() {
            Some(token @ ("known" | "weak")) => json!({"authenticated": true, "user": {
                "username": token, "uid": "1", "groups": ["readers"], "extra": {"a": ["b"]},
            }}),
            _ => json!({"authenticated": false, "error": "invalid bearer token"}),
        },
        "/apis/authorization.k8s.io/v1/subjectaccessreviews" => {
            let expected = json!({"user": "known", "uid": "1", "groups": ["readers"], "extra": {"a": ["b"]},
                "nonResourceAttributes": {"path": "/metrics", "verb": "get"}});
            json!({ "allowed": review["spec"] == expected })
        }
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    (StatusCode::CREATED, review.to_string()).into_response()
}

fn check(server: Server, token: &str, expected: Result<Verdict, &str>) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address")).parse().expect("a URL");
        tokio::spawn(async move {
            axum::serve(listener, axum::Router::new().fallback(answer).with_state(server)).await.ok();
        });
        let client = kube::Client::try_from(kube::Config::new(url)).expect("a client");
        let verdict = Reviews::new(client).review(token, "get", "/metrics").await;
        match (verdict.map_err(|error| error.to_string()), expected) {
            (Ok(verdict), Ok(expected)) => assert_eq!(verdict, expected, "{token}"),
            (Err(error), Err(expected)) => assert!(error.starts_with(expected), "{error}"),
            (verdict, expected) => panic!("{token}: {verdict:?}, not {expected:?}"),
        }
    });
}

#[test]
fn what_the_api_server_says_of_a_token_and_of_its_bearer_counts() {
    let server = Server { asks: true };
    check(server, "known", Ok(Verdict::Allowed));
    check(server, "weak", Ok(Verdict::Forbidden { user: "weak".to_owned() }));
    check(server, "guessed", Ok(Verdict::Stranger));
}

#[test]
fn where_it_can_not_be_asked_nothing_is_known() {
    check(Server { asks: false }, "known", Err("tokenreviews can't be created: "));
}
