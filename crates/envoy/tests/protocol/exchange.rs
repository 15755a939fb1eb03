//! The state machine, promise by promise.

use envoy::Limits;
use envoy_types::pb::envoy::service::ext_proc::v3::ProcessingRequest;

use crate::cases::Stream;
use crate::gateway::{self, Beside};
use crate::script::{Rewrite, check, check_with};

#[test]
fn headers_alone_are_answered_at_once_and_without_a_body() {
    check(
        "> headers GET /v1/models end x-request-id=r
         < decide GET /v1/models body=none id=r
         > decided 10.0.0.1:8000
         < headers dest=10.0.0.1:8000 reroute
         > response 200
         < response
         = head 200
         > chunk {} end
         < chunk {} end
         = part {} end
         = dropped",
    );
}

#[test]
fn a_body_is_collected_to_its_end_and_every_byte_goes_back_after_the_headers() {
    check(
        "> headers POST /v1/chat/completions x-request-id=r
         > body hel
         > body lo end
         < decide POST /v1/chat/completions body=hello id=r
         > decided 10.0.0.1:8000
         < headers dest=10.0.0.1:8000 reroute
         < body hello end",
    );
}

#[test]
fn a_body_that_ends_with_trailers_is_answered_with_trailers_and_no_end_flag() {
    check(
        "> headers POST /p x-request-id=r
         > body hello
         > trailers
         < decide POST /p body=hello id=r
         > decided 10.0.0.1:8000
         < headers dest=10.0.0.1:8000 reroute
         < body hello
         < trailers",
    );
    check(
        "> headers POST /p x-request-id=r
         > trailers
         < decide POST /p body=none id=r
         > decided 10.0.0.1:8000
         < headers dest=10.0.0.1:8000 reroute
         < trailers",
    );
}

#[test]
fn no_part_is_longer_than_a_gateway_takes_and_only_the_last_one_ends() {
    check(
        "> headers POST /p x-request-id=r
         > body 61999B end
         < decide POST /p body=61999B id=r
         > decided 10.0.0.1:8000
         < headers dest=10.0.0.1:8000 reroute
         < body 61999B end",
    );
    check(
        "> headers POST /p x-request-id=r
         > body 62000B end
         < decide POST /p body=62000B id=r
         > decided 10.0.0.1:8000
         < headers dest=10.0.0.1:8000 reroute
         < body 62000B end",
    );
    check(
        "> headers POST /p x-request-id=r
         > body 62001B end
         < decide POST /p body=62001B id=r
         > decided 10.0.0.1:8000
         < headers dest=10.0.0.1:8000 reroute
         < body 62000B
         < body \u{0} end"
            .replace('\u{0}', &String::from_utf8(vec![(62000 % 251) as u8]).unwrap())
            .as_str(),
    );
}

#[test]
fn an_empty_body_is_one_empty_last_part() {
    check(
        "> headers POST /p x-request-id=r
         > body - end
         < decide POST /p body=none id=r
         > decided 10.0.0.1:8000
         < headers dest=10.0.0.1:8000 reroute
         < body - end",
    );
}

#[test]
fn a_repeated_last_part_changes_nothing_whenever_it_comes() {
    check(
        "> headers POST /p x-request-id=r
         > body one
         > body two end
         < decide POST /p body=onetwo id=r
         > body two end
         > decided 10.0.0.1:8000
         < headers dest=10.0.0.1:8000 reroute
         < body onetwo end
         > body two end
         > response 200
         < response
         = head 200
         > body two end
         > chunk a end
         < chunk a end
         = part a end
         = dropped
         > chunk a end",
    );
}

#[test]
fn a_buffering_gateway_gets_its_headers_answered_first_and_the_verdict_with_the_body() {
    check(
        "> mode buffered buffered
         > headers POST /p x-request-id=r content-length=5
         < headers
         > body hello end
         < decide POST /p body=hello id=r
         > decided 10.0.0.1:8000
         < body dest=10.0.0.1:8000 reroute
         > response 200
         < response
         = head 200
         > chunk banana end
         < chunk
         = part banana end
         = dropped",
    );
}

#[test]
fn a_buffering_gateway_is_told_the_length_of_a_changed_body() {
    check_with(
        Limits::default(),
        Rewrite::Longer,
        "> mode buffered buffered
         > headers POST /p x-request-id=r content-length=5
         < headers
         > body hello end
         < decide POST /p body=hello id=r
         > decided 10.0.0.1:8000 body changed
         < body whole=changed dest=10.0.0.1:8000 +content-length=7 reroute
         > response 200
         < response
         = head 200
         > chunk banana
         < chunk whole=bbbnbbnbb +content-length=9
         = part banana end
         = dropped
         > response-trailers
         < response-trailers",
    );
}

#[test]
fn a_buffering_gateway_may_have_no_body_or_trailers() {
    check(
        "> mode buffered buffered
         > headers GET /p end x-request-id=r
         < decide GET /p body=none id=r
         > decided 10.0.0.1:8000
         < headers dest=10.0.0.1:8000 reroute",
    );
    check(
        "> mode buffered buffered
         > headers POST /p x-request-id=r
         < headers
         > body hello
         < decide POST /p body=hello id=r
         > decided 10.0.0.1:8000
         < body dest=10.0.0.1:8000 reroute
         > trailers
         < trailers",
    );
    check(
        "> mode buffered buffered
         > headers POST /p x-request-id=r
         < headers
         > trailers
         < decide POST /p body=none id=r
         > decided 10.0.0.1:8000
         < trailers metadata-dest=10.0.0.1:8000",
    );
}

#[test]
fn a_gateway_that_hides_bodies_is_answered_on_the_headers() {
    check(
        "> mode none none
         > headers POST /p x-request-id=r
         < decide POST /p body=none id=r
         > decided 10.0.0.1:8000
         < headers dest=10.0.0.1:8000 reroute
         > response 200
         < response
         = head 200
         > hang-up
         = dropped",
    );
}

#[test]
fn streamed_and_partly_buffered_bodies_neither_stall_nor_are_decided_on() {
    for mode in ["streamed", "partial"] {
        check(&format!(
            "> mode {mode} {mode}
             > headers POST /p x-request-id=r
             < decide POST /p body=none id=r
             > decided 10.0.0.1:8000 body ignored
             < headers dest=10.0.0.1:8000 reroute
             > body one
             < body
             > body two end
             < body
             > response 200
             < response
             = head 200
             > chunk one
             < chunk
             = part one
             > chunk two end
             < chunk
             = part two end
             = dropped"
        ));
    }
}

#[test]
fn parts_that_come_before_the_decision_are_answered_after_it() {
    check(
        "> mode streamed streamed
         > headers POST /p x-request-id=r
         < decide POST /p body=none id=r
         > body one
         > body two
         > trailers
         > decided 10.0.0.1:8000
         < headers dest=10.0.0.1:8000 reroute
         < body
         < body
         < trailers",
    );
}

#[test]
fn a_gateway_that_skips_headers_gets_no_answer_to_them() {
    check(
        "> mode duplex duplex
         > body hello end
         < decide   body=hello id=spare
         > decided 10.0.0.1:8000
         < body hello end metadata-dest=10.0.0.1:8000",
    );
    check(
        "> mode buffered buffered
         > body hello end
         < decide   body=hello id=spare
         > decided 10.0.0.1:8000
         < body dest=10.0.0.1:8000 +x-request-id=spare reroute",
    );
}

#[test]
fn a_changed_body_goes_out_in_place_of_the_one_that_came() {
    check(
        "> headers POST /p x-request-id=r content-length=5
         > body hello end
         < decide POST /p body=hello id=r
         > decided 10.0.0.1:8000 body other-one
         < headers dest=10.0.0.1:8000 +content-length=9 reroute
         < body other-one end",
    );
    check(
        "> headers POST /p x-request-id=r content-length=5
         > body hello
         > trailers
         < decide POST /p body=hello id=r
         > decided 10.0.0.1:8000 body other-one
         < headers dest=10.0.0.1:8000 -content-length reroute
         < body other-one
         < trailers",
    );
}

#[test]
fn what_steers_us_or_the_engine_is_removed_when_it_comes_from_a_client() {
    check(
        "> headers POST /p end x-request-id=r x-gateway-destination-endpoint=10.9.9.9:22 \
           X-Gateway-Destination-Endpoint-Subset=a x-gateway-destination-endpoint-served=b \
           x-llm-d-request-dropped-reason=c x-prefiller-host-port=d x-encoder-hosts-ports=e \
           x-data-parallel-host-port=f x-kv-cache-source-host-port=g x-else=h
         < decide POST /p body=none id=r
         > decided 10.0.0.1:8000 set x-prefiller-host-port=10.0.0.2:8000
         < headers dest=10.0.0.1:8000 +x-prefiller-host-port=10.0.0.2:8000 \
           -x-gateway-destination-endpoint-subset -x-gateway-destination-endpoint-served \
           -x-llm-d-request-dropped-reason -x-encoder-hosts-ports -x-data-parallel-host-port \
           -x-kv-cache-source-host-port reroute"
            .replace("\\\n", "")
            .as_str(),
    );
}

#[test]
fn a_verdict_sets_and_removes_headers_but_not_those_that_gateways_refuse() {
    check(
        "> headers POST /p end x-request-id=r
         < decide POST /p body=none id=r
         > decided 10.0.0.1:8000 set X-One=1 set host=h set :path=/q set x-envoy-a=b set content-length=9 remove x-two
         < headers dest=10.0.0.1:8000 +x-one=1 -x-two reroute",
    );
}

#[test]
fn a_request_without_an_id_gets_one() {
    check(
        "> headers POST /p end
         < decide POST /p body=none id=spare
         > decided 10.0.0.1:8000
         < headers dest=10.0.0.1:8000 +x-request-id=spare reroute",
    );
    check(
        "> headers POST /p end x-request-id=
         < decide POST /p body=none id=spare
         > decided 10.0.0.1:8000
         < headers dest=10.0.0.1:8000 +x-request-id=spare reroute",
    );
}

#[test]
fn several_destinations_are_a_list_in_order_and_ipv6_is_bracketed() {
    check(
        "> headers POST /p end x-request-id=r
         < decide POST /p body=none id=r
         > decided [fd00::1]:8000,10.0.0.2:8001
         < headers dest=[fd00::1]:8000,10.0.0.2:8001 reroute",
    );
}

#[test]
fn the_subset_is_read_as_list_or_text_and_a_later_one_with_endpoints_counts() {
    check(
        "> subset 10.0.0.1:8000,10.0.0.2
         > headers POST /p end x-request-id=r
         < decide POST /p body=none subset=[10.0.0.1:8000,10.0.0.2] id=r",
    );
    check(
        "> subset list 10.0.0.1:8000,10.0.0.2:8000;10.0.0.3:8000
         > headers POST /p x-request-id=r
         > subset list -
         > body hello
         > body - end
         < decide POST /p body=hello subset=[10.0.0.1:8000,10.0.0.2:8000,10.0.0.3:8000] id=r",
    );
    check(
        "> subset list -
         > headers POST /p x-request-id=r
         > subset 10.0.0.9:1
         > body hello end
         < decide POST /p body=hello subset=[10.0.0.9:1] id=r",
    );
    check(
        "> subset list -
         > headers POST /p end x-request-id=r
         < decide POST /p body=none subset=[] id=r",
    );
}

#[test]
fn the_served_endpoint_reaches_the_ticket_and_what_it_sets_the_client() {
    check(
        "> headers POST /p end x-request-id=r
         < decide POST /p body=none id=r
         > decided 10.0.0.1:8000
         < headers dest=10.0.0.1:8000 reroute
         > served 10.0.0.2:8000
         > response 204 end
         < response +x-served=10.0.0.2:8000
         = head 204 served=10.0.0.2:8000 end
         = dropped",
    );
    check(
        "> headers POST /p end x-request-id=r
         < decide POST /p body=none id=r
         > decided 10.0.0.1:8000
         < headers dest=10.0.0.1:8000 reroute
         > served nonsense
         > response 200
         < response
         = head 200",
    );
}

#[test]
fn a_response_passes_chunk_by_chunk_and_its_trailers_end_it() {
    check(
        "> headers POST /p end x-request-id=r
         < decide POST /p body=none id=r
         > decided 10.0.0.1:8000
         < headers dest=10.0.0.1:8000 reroute
         > response 200
         < response
         = head 200
         > chunk one
         < chunk one
         = part one
         > chunk -
         = part -
         > chunk two
         < chunk two
         = part two
         > response-trailers
         < response-trailers
         = part - end
         = dropped
         > response-trailers",
    );
}

#[test]
fn what_a_ticket_keeps_back_goes_out_before_the_end_or_the_trailers() {
    let head = "> headers POST /p end x-request-id=r
         < decide POST /p body=none id=r
         > decided 10.0.0.1:8000
         < headers dest=10.0.0.1:8000 reroute
         > response 200
         < response
         = head 200
         > chunk one
         = part one
        ";
    let by_flag = "> chunk two end
         < chunk onetwo end
         = part two end
         = dropped";
    let by_trailers = "> response-trailers
         < chunk one
         < response-trailers
         = part - end
         = dropped";
    check_with(Limits::default(), Rewrite::Late, &format!("{head}{by_flag}"));
    check_with(Limits::default(), Rewrite::Late, &format!("{head}{by_trailers}"));
}

#[test]
fn a_long_chunk_of_a_response_is_cut_too() {
    check(
        "> headers POST /p end x-request-id=r
         < decide POST /p body=none id=r
         > decided 10.0.0.1:8000
         < headers dest=10.0.0.1:8000 reroute
         > response 200
         < response
         = head 200
         > chunk 130000B
         < chunk 62000B
         < chunk 62000B
         < chunk 6000B
         = part 130000B",
    );
}

#[test]
fn a_refusal_is_the_answer_and_ends_the_stream() {
    for (kind, answer) in [
        ("bad_request", "400 +content-type=application/json"),
        ("saturated", "429 +content-type=application/json +x-llm-d-request-dropped-reason=rejected-saturated"),
        ("no_endpoint", "503 +content-type=application/json +x-llm-d-request-dropped-reason=rejected-no-endpoints"),
        ("internal", "500 +content-type=application/json"),
    ] {
        check(&format!(
            "> headers POST /p x-request-id=r
             > body hello end
             < decide POST /p body=hello id=r
             > refused {kind}
             < immediate {answer}
             < close"
        ));
    }
}

#[test]
fn a_verdict_without_a_destination_is_no_endpoint_and_never_an_empty_answer() {
    check(
        "> headers POST /p end x-request-id=r
         < decide POST /p body=none id=r
         > decided -
         < immediate 503 +content-type=application/json +x-llm-d-request-dropped-reason=rejected-no-endpoints
         < close
         = dropped",
    );
}

#[test]
fn a_body_over_the_limit_is_refused_as_soon_as_it_is_over() {
    let limits = Limits { max_body: 8 };
    check_with(
        limits,
        Rewrite::Nothing,
        "> headers POST /p x-request-id=r
         > body 8B
         > body x
         < immediate 413 +content-type=application/json
         < close
         > body y end
         < close",
    );
    check_with(
        limits,
        Rewrite::Nothing,
        "> headers POST /p content-length=9
         < immediate 413 +content-type=application/json
         < close",
    );
    check_with(
        limits,
        Rewrite::Nothing,
        "> mode buffered none
         > headers POST /p x-request-id=r
         < headers
         > body 9B end
         < immediate 413 +content-type=application/json
         < close",
    );
}

#[test]
fn a_response_before_the_decision_is_passed_on_and_the_late_decision_let_go() {
    check(
        "> headers POST /p x-request-id=r
         > body hello
         > response 413
         < response
         > chunk too-long end
         < chunk too-long end
         > body more end",
    );
    check(
        "> headers POST /p end x-request-id=r
         < decide POST /p body=none id=r
         > response 504
         < response
         > decided 10.0.0.1:8000
         = dropped",
    );
}

#[test]
fn letting_go_refuses_what_is_unanswered_and_only_leaves_what_is() {
    let shutting_down =
        "immediate 503 +content-type=application/json +x-llm-d-request-dropped-reason=rejected-shutting-down";
    check("> let-go\n< close");
    check(&format!("> headers POST /p x-request-id=r\n> body hello\n> let-go\n< {shutting_down}\n< close"));
    check(&format!(
        "> headers POST /p end x-request-id=r
         < decide POST /p body=none id=r
         > let-go
         < {shutting_down}
         < close
         > decided 10.0.0.1:8000
         < close
         = dropped"
    ));
    check(
        "> headers POST /p end x-request-id=r
         < decide POST /p body=none id=r
         > decided 10.0.0.1:8000
         < headers dest=10.0.0.1:8000 reroute
         > let-go
         < close
         = dropped",
    );
}

#[test]
fn the_ticket_is_dropped_once_wherever_the_gateway_hangs_up() {
    check("> headers POST /p x-request-id=r\n> hang-up");
    check("> headers POST /p x-request-id=r\n> body hello\n> hang-up");
    let decided = "> headers POST /p x-request-id=r
         > body hello end
         < decide POST /p body=hello id=r
         > decided 10.0.0.1:8000
         < headers dest=10.0.0.1:8000 reroute
         < body hello end";
    let begun = "> response 200\n< response\n= head 200";
    let half = "> chunk one\n< chunk one\n= part one";
    let whole = "> chunk two end\n< chunk two end\n= part two end\n= dropped";
    let hang_up = "> hang-up\n= dropped";
    check(&format!("{decided}\n{hang_up}"));
    check(&format!("{decided}\n{begun}\n{hang_up}"));
    check(&format!("{decided}\n{begun}\n{half}\n{hang_up}"));
    check(&format!("{decided}\n{begun}\n{half}\n{whole}\n> hang-up"));
}

#[test]
fn a_gateway_that_only_shows_its_traffic_or_says_nothing_gets_no_answer() {
    let mut stream = Stream::new();
    let shown = gateway::message(&["headers", "POST", "/p", "end"], Beside::default());
    stream.receive(ProcessingRequest { observability_mode: true, ..shown });
    stream.receive(ProcessingRequest::default());
    assert!(stream.decided.is_empty() && stream.replies.is_empty());
}
