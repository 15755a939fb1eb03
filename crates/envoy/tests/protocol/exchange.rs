//! The state machine, promise by promise.

use envoy::{BodyMemory, Limits};
use envoy_types::pb::envoy::service::ext_proc::v3::ProcessingRequest;

use crate::cases::Stream;
use crate::gateway::{self, Beside};
use crate::script::{Rewrite, check, check_with, check_within};

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
         > headers POST /p x-request-id=r content-length=5
         < headers
         > body hello
         < decide POST /p body=hello id=r
         > decided 10.0.0.1:8000
         < body dest=10.0.0.1:8000 reroute
         > trailers
         < trailers",
    );
}

#[test]
fn a_buffering_gateway_that_may_get_no_body_is_told_a_destination_in_time_for_a_header() {
    // It went by: the destination of the headers' answer counts, and is the only one that may be decided on.
    check(
        "> mode buffered buffered
         > subset 10.0.0.1:8000,10.0.0.2:8000
         > headers POST /p x-request-id=r
         < suppose POST /p
         > supposed 10.0.0.2:8000
         < headers dest=10.0.0.2:8000 reroute
         > trailers
         < decide POST /p body=none subset=[10.0.0.2:8000] id=r
         > decided 10.0.0.1:8000
         < trailers metadata-dest=10.0.0.2:8000",
    );
    // The body came: it is decided as ever.
    check(
        "> mode buffered buffered
         > subset 10.0.0.1:8000,10.0.0.2:8000
         > headers POST /p x-request-id=r
         < suppose POST /p
         > supposed 10.0.0.2:8000
         < headers dest=10.0.0.2:8000 reroute
         > body hello end
         < decide POST /p body=hello subset=[10.0.0.1:8000,10.0.0.2:8000] id=r
         > decided 10.0.0.1:8000
         < body dest=10.0.0.1:8000 reroute",
    );
    // Nobody was there at the headers.
    check(
        "> mode buffered buffered
         > headers POST /p x-request-id=r
         < suppose POST /p
         > supposed -
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
         < decide POST /p body=hidden id=r
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
             < decide POST /p body=hidden id=r
             > decided 10.0.0.1:8000 body ignored
             < headers dest=10.0.0.1:8000 reroute
             > body one
             < body
             > body two end
             < body
             > response 200
             < response
             = head 200 keep-nothing
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
         < decide POST /p body=hidden id=r
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

/// No destination in header or metadata, no new route; and what a client writes there doesn't steer either.
#[test]
fn where_the_gateway_chooses_nothing_names_an_endpoint() {
    for decided in ["10.0.0.1:8000 hands off", "- hands off"] {
        check(&format!(
            "> headers POST /p x-request-id=r x-gateway-destination-endpoint=10.9.9.9:22
             > body hello end
             < decide POST /p body=hello id=r
             > decided {decided}
             < headers -x-gateway-destination-endpoint
             < body hello end",
        ));
    }
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
         = head 200
         = no endpoint told",
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
         < told no_endpoint
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
         < told too_large
         < close
         > body y end
         < close",
    );
    check_with(
        limits,
        Rewrite::Nothing,
        "> headers POST /p content-length=9
         < immediate 413 +content-type=application/json
         < told too_large
         < close",
    );
    check_with(
        limits,
        Rewrite::Nothing,
        "> mode buffered none
         > headers POST /p x-request-id=r content-length=8
         < headers
         > body 9B end
         < immediate 413 +content-type=application/json
         < told too_large
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

/// Asked and answered in full duplex, the response still to come.
const ANSWERED: &str = "> headers POST /p x-request-id=r
     > body hello end
     < decide POST /p body=hello id=r
     > decided 10.0.0.1:8000
     < headers dest=10.0.0.1:8000 reroute
     < body hello end
    ";
const SHUTTING_DOWN: &str = "< immediate 503 +content-type=application/json \
     +x-llm-d-request-dropped-reason=rejected-shutting-down\n< told shutting_down\n< close";

#[test]
fn while_draining_a_request_is_left_to_the_gateway_together_with_its_answers() {
    check(
        "> headers POST /p x-request-id=r
         > body hel
         > drains
         > body lo end
         < decide POST /p body=hello id=r
         > decided 10.0.0.1:8000
         < headers dest=10.0.0.1:8000 reroute
         < body hello end
         < close
         = dropped
         > response 200
         < close",
    );
    check(
        "> mode buffered buffered
         > headers POST /p x-request-id=r content-length=5
         < headers
         > drains
         > body hello end
         < decide POST /p body=hello id=r
         > decided 10.0.0.1:8000
         < body dest=10.0.0.1:8000 reroute
         < close
         = dropped",
    );
    // Begun while draining, without a body and with one that isn't shown.
    for mode in ["duplex duplex", "none none"] {
        let end = if mode == "duplex duplex" { " end" } else { "" };
        let shown = if mode == "duplex duplex" { "none" } else { "hidden" };
        check(&format!(
            "> drains
             > mode {mode}
             > headers GET /p{end} x-request-id=r
             < decide GET /p body={shown} id=r
             > decided 10.0.0.1:8000
             < headers dest=10.0.0.1:8000 reroute
             < close
             = dropped"
        ));
    }
}

#[test]
fn a_response_that_may_be_on_its_way_is_served_while_draining_and_one_that_the_gateway_holds_is_not_waited_for() {
    check(&format!(
        "{ANSWERED}> drains
         > response 200
         < response
         = head 200
         > chunk one
         < chunk one
         = part one
         > chunk two end
         < chunk two end
         < close
         = part two end
         = dropped"
    ));
    check(
        "> mode buffered buffered
         > headers GET /p end x-request-id=r
         < decide GET /p body=none id=r
         > decided 10.0.0.1:8000
         < headers dest=10.0.0.1:8000 reroute
         > drains
         < close
         = dropped",
    );
    // All of it has passed, and the gateway keeps the stream.
    check(&format!(
        "{ANSWERED}> response 204 end
         < response
         = head 204 end
         = dropped
         > drains
         < close"
    ));
}

#[test]
fn when_the_window_is_over_what_is_under_way_ends_behind_a_part_of_it() {
    check(&format!(
        "{ANSWERED}> response 200
         < response
         = head 200
         > chunk one
         < chunk one
         = part one
         > drains
         > let-go
         > chunk two
         < chunk two
         < close
         = part two
         = dropped"
    ));
    check(&format!(
        "{ANSWERED}> response 200
         < response
         = head 200
         > let-go
         > leave
         < close
         = dropped"
    ));
}

#[test]
fn letting_go_refuses_what_is_unanswered_and_only_leaves_what_is() {
    check("> let-go\n< close");
    check(&format!("> headers POST /p x-request-id=r\n> body hello\n> let-go\n{SHUTTING_DOWN}"));
    check(&format!(
        "> headers POST /p end x-request-id=r
         < decide POST /p body=none id=r
         > let-go
         {SHUTTING_DOWN}
         > decided 10.0.0.1:8000
         < close
         = dropped"
    ));
    check(&format!("{ANSWERED}> let-go\n< close\n= dropped"));
}

fn cramped(script: &str) {
    let memory = BodyMemory::new(8);
    check_within(&memory, Limits { max_body: 100 }, Rewrite::Nothing, script);
    assert_eq!(memory.held(), 0);
}

#[test]
fn a_body_that_has_no_room_is_not_waited_for_and_goes_through_part_by_part() {
    // By its length at the headers; the length is a claim, and takes nothing.
    cramped(
        "> headers POST /p x-request-id=r content-length=9
         < decide POST /p body=no-memory id=r
         > decided 10.0.0.1:8000
         < headers dest=10.0.0.1:8000 reroute
         > body one
         < body one
         > body -
         > body two end
         < body two end
         > body two end
         > response 200
         < response
         = head 200
         > chunk a end
         < chunk a end
         = part a end
         = dropped",
    );
    // By a part: what is held and what came last go back, in order.
    cramped(
        "> headers POST /p x-request-id=r
         > body hello
         > body world
         < decide POST /p body=no-memory id=r
         > decided 10.0.0.1:8000 body ignored
         < headers dest=10.0.0.1:8000 reroute
         < body hello
         < body world
         > body 70000B
         < body 62000B
         < body 8000B
         > trailers
         < trailers
         > hang-up
         = dropped",
    );
    // By its last part.
    cramped(
        "> headers POST /p x-request-id=r
         > body hello
         > body world end
         < decide POST /p body=no-memory id=r
         > decided 10.0.0.1:8000
         < headers dest=10.0.0.1:8000 reroute
         < body hello
         < body world end
         > hang-up
         = dropped",
    );
}

#[test]
fn parts_that_come_while_a_request_is_decided_early_keep_their_order_and_their_end() {
    for (more, answers) in [
        ("> body two\n> body three end", "< body one\n< body two\n< body three end"),
        ("> body two\n> body - end", "< body one\n< body two\n< body - end"),
        ("> body two\n> trailers", "< body one\n< body two\n< trailers"),
        ("> trailers", "< body one\n< trailers"),
    ] {
        cramped(&format!(
            "> headers POST /p x-request-id=r
             > body one
             > stalls
             < decide POST /p body=stalled id=r
             {more}
             > decided 10.0.0.1:8000
             < headers dest=10.0.0.1:8000 reroute
             {answers}
             > hang-up
             = dropped"
        ));
    }
}

#[test]
fn a_buffering_gateway_keeps_what_has_no_room_here() {
    cramped(
        "> mode buffered buffered
         > headers POST /p x-request-id=r content-length=9
         < decide POST /p body=no-memory id=r
         > decided 10.0.0.1:8000
         < headers dest=10.0.0.1:8000 reroute
         > body 9B end
         < body
         > hang-up
         = dropped",
    );
    cramped(
        "> mode buffered buffered
         > headers POST /p x-request-id=r content-length=3
         < headers
         > body 9B end
         < decide POST /p body=no-memory id=r
         > decided 10.0.0.1:8000 body ignored
         < body dest=10.0.0.1:8000 reroute
         > hang-up
         = dropped",
    );
}

#[test]
fn only_the_configured_size_is_too_large_and_only_while_a_body_is_collected() {
    cramped(&format!("> headers POST /p content-length=101\n{TOO_LARGE}"));
    cramped(
        "> headers POST /p x-request-id=r content-length=100
         < decide POST /p body=no-memory id=r
         > decided 10.0.0.1:8000
         < headers dest=10.0.0.1:8000 reroute
         > body 60B
         < body 60B
         > body 60B end
         < body 60B end
         > hang-up
         = dropped",
    );
}

const TOO_LARGE: &str = "< immediate 413 +content-type=application/json\n< told too_large\n< close";

#[test]
fn a_body_that_stops_coming_is_not_waited_for_in_full_duplex_alone() {
    check(
        "> stalls
         > headers POST /p x-request-id=r
         > stalls
         < decide POST /p body=stalled id=r
         > decided 10.0.0.1:8000
         < headers dest=10.0.0.1:8000 reroute
         > stalls
         > body hello end
         < body hello end
         > stalls
         > response 200
         < response
         = head 200
         > stalls
         > hang-up
         = dropped",
    );
    check(
        "> mode buffered buffered
         > headers POST /p x-request-id=r content-length=5
         < headers
         > stalls
         > body hello end
         < decide POST /p body=hello id=r",
    );
}

#[test]
fn a_request_answered_early_is_left_to_the_gateway_once_all_of_it_has_passed() {
    let early = "> headers POST /p x-request-id=r
         > body hel
         > stalls
         < decide POST /p body=stalled id=r
         > decided 10.0.0.1:8000
         < headers dest=10.0.0.1:8000 reroute
         < body hel
        ";
    check(&format!("{early}> drains\n> body lo end\n< body lo end\n< close\n= dropped"));
    check(&format!("{early}> drains\n> trailers\n< trailers\n< close\n= dropped"));
    check(&format!("{early}> let-go\n> body lo\n< body lo\n> body - end\n< body - end\n< close\n= dropped"));
    check(&format!("{early}> let-go\n> leave\n< close\n= dropped"));
}

/// A gateway that buffers both ways, up to its response's headers.
const EVENTS: &str = "> mode buffered buffered
     > headers GET /p end x-request-id=r
     < decide GET /p body=none id=r
     > decided 10.0.0.1:8000
     < headers dest=10.0.0.1:8000 reroute
     > response 200 content-type=text/event-stream;charset=utf-8
     < response ask=buffered,streamed
     = head 200 keep-nothing
    ";

#[test]
fn a_buffering_gateway_is_asked_to_stream_events_and_may_do_so_or_not() {
    check(&format!(
        "{EVENTS}> chunk one
         < chunk
         = part one
         > chunk two end
         < chunk
         = part two end
         = dropped"
    ));
    check(&format!(
        "{EVENTS}> chunk one-two
         < chunk
         = part one-two
         > response-trailers
         < response-trailers
         = part - end
         = dropped"
    ));
    check(&format!("{EVENTS}> chunk one-two end\n< chunk\n= part one-two end\n= dropped"));
    // A gateway that buffers all the same checks a length that stands in the headers.
    check_with(
        Limits::default(),
        Rewrite::Longer,
        &EVENTS.replace("> response 200", "> response 200 content-length=6"),
    );
    check_with(
        Limits::default(),
        Rewrite::Longer,
        &format!(
            "{}> chunk banana end
             < chunk whole=bbbnbbnbb +content-length=9
             = part banana end
             = dropped",
            EVENTS.replace("> response 200", "> response 200 content-length=6")
        ),
    );
    check_with(
        Limits::default(),
        Rewrite::Longer,
        &format!("{EVENTS}> chunk banana\n< chunk whole=bbbnbbnbb\n= part banana\n> hang-up\n= dropped"),
    );
}

#[test]
fn no_other_mode_is_asked_for_where_it_would_be_ignored_or_wrong() {
    for (modes, headers, ask) in [
        ("duplex duplex", "content-type=text/event-stream", ""),
        ("duplex buffered", "content-type=text/event-stream", ""),
        ("buffered duplex", "content-type=text/event-stream", ""),
        ("none none", "content-type=text/event-stream", ""),
        ("none buffered", "content-type=text/event-stream", " ask=none,streamed"),
        ("buffered buffered", "content-type=application/json", ""),
        ("buffered buffered", "content-type=text/event-stream end", ""),
    ] {
        let end = if headers.ends_with(" end") { " end" } else { "" };
        let keep = if ask.is_empty() { "" } else { " keep-nothing" };
        let over = if end.is_empty() { "> hang-up\n= dropped" } else { "= dropped" };
        check(&format!(
            "> mode {modes}
             > headers GET /p end x-request-id=r
             < decide GET /p body=none id=r
             > decided 10.0.0.1:8000
             < headers dest=10.0.0.1:8000 reroute
             > response 200 {headers}
             < response{ask}
             = head 200{keep}{end}
             {over}"
        ));
    }
}

#[test]
fn scores_stand_beside_the_destination_where_there_are_some() {
    check(
        "> headers GET /p end x-request-id=r
         < decide GET /p body=none id=r
         > decided 10.0.0.1:8000 score 2.5
         < headers dest=10.0.0.1:8000 reroute 10.0.0.1:8000=2.5",
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
