//! Answers that are errors, in vLLM's form. In: what is wrong; out: a status and its JSON.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::json;

/// Why a request is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    status: StatusCode,
    kind: &'static str,
    message: String,
    param: Option<&'static str>,
}

impl Refusal {
    /// The asker's fault.
    pub(super) fn bad_request(message: impl Into<String>, param: Option<&'static str>) -> Refusal {
        Refusal { status: StatusCode::BAD_REQUEST, kind: "BadRequestError", message: message.into(), param }
    }

    /// No such model here.
    pub(super) fn unknown_model(name: &str) -> Refusal {
        Refusal {
            status: StatusCode::NOT_FOUND,
            kind: "NotFoundError",
            message: format!("The model `{name}` does not exist."),
            param: Some("model"),
        }
    }

    /// A status that its phrase says all of.
    pub(super) fn plain(status: StatusCode) -> Refusal {
        let phrase = status.canonical_reason().unwrap_or("Error");
        Refusal { status, kind: phrase, message: phrase.to_owned(), param: None }
    }

    /// The stand-in cannot do what was asked.
    pub(super) fn unavailable(message: impl Into<String>) -> Refusal {
        Refusal {
            status: StatusCode::SERVICE_UNAVAILABLE,
            kind: "ServiceUnavailableError",
            message: message.into(),
            param: None,
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let error =
            json!({"message": self.message, "type": self.kind, "param": self.param, "code": self.status.as_u16()});
        (self.status, Json(json!({ "error": error }))).into_response()
    }
}
