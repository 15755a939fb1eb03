//! Decisions as a gRPC stream, `warmpath.v1.Decisions`.
//!
//! In: who has been let in and wants to follow, and the feed; out: records as messages, and how many a client was too slow for.
//! Messages are made one at a time, when the client's window has room for them: nothing piles up here.

pub(crate) mod wire;
pub(crate) mod words;

use std::pin::Pin;
use std::time::Duration;

use futures::{Stream, stream};
use proto::v1::decisions_server::{Decisions, DecisionsServer};
use proto::v1::follow_response::Told as Said;
use proto::v1::{FollowRequest, FollowResponse};
use record::Record;
use tonic::{Request, Response, Status};

use crate::feed::{Feed, Follower, Heard, Told};

/// The paths of the service's methods, for a router.
pub(crate) const PATHS: &str = "/warmpath.v1.Decisions/{method}";

/// The service.
pub(crate) fn server(feed: Feed) -> DecisionsServer<Stand> {
    DecisionsServer::new(Stand { feed, quiet: QUIET })
}

/// How long nothing is said at most: the admin port ends connections over which nothing is.
const QUIET: Duration = Duration::from_secs(10);

/// Where one follows.
#[derive(Debug)]
pub(crate) struct Stand {
    feed: Feed,
    /// How long nothing is said at most.
    quiet: Duration,
}

#[tonic::async_trait]
impl Decisions for Stand {
    type FollowStream = Pin<Box<dyn Stream<Item = Result<FollowResponse, Status>> + Send>>;

    async fn follow(&self, request: Request<FollowRequest>) -> Result<Response<Self::FollowStream>, Status> {
        let wanted = request.into_inner();
        let told = if wanted.picks { Told::PicksAndEnds } else { Told::Ends };
        let Some(follower) = self.feed.follow(told) else {
            return Err(match self.feed.is_closed() {
                true => Status::unavailable("the picker is ending"),
                false => Status::resource_exhausted("too many follow already"),
            });
        };
        Ok(Response::new(Box::pin(stream::unfold((follower, wanted, self.quiet), next))))
    }
}

/// The next message that is wanted, and what goes on.
async fn next(
    (mut follower, wanted, quiet): (Follower, FollowRequest, Duration),
) -> Option<(Result<FollowResponse, Status>, (Follower, FollowRequest, Duration))> {
    let said = tokio::time::timeout(quiet, said(&mut follower, &wanted)).await;
    // An empty message where there is nothing to say: the stream lives.
    let told = said.map_or(Some(None), |said| said.map(Some))?;
    Some((Ok(FollowResponse { told }), (follower, wanted, quiet)))
}

/// What is told next; nothing any more where the picker ends.
async fn said(follower: &mut Follower, wanted: &FollowRequest) -> Option<Said> {
    loop {
        match follower.next().await? {
            Heard::Lost(lost) => return Some(Said::Lost(lost)),
            Heard::Record(record) if is_wanted(wanted, &record) => return Some(Said::Decision(wire::message(&record))),
            Heard::Record(_) => {}
        }
    }
}

fn is_wanted(wanted: &FollowRequest, record: &Record) -> bool {
    let FollowRequest { model, endpoint, request_id, troubled, picks: _ } = wanted;
    (model.is_empty() || *model == record.asked.model)
        && (endpoint.is_empty() || record.concerns(endpoint))
        && (request_id.is_empty() || *request_id == record.request_id)
        && (!troubled || record.is_troubled())
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;
    use crate::feed::tests::record;

    #[test]
    fn those_are_told_for_which_everything_that_is_asked_holds() {
        let mut record = wire::tests::full();
        let check = |record: &Record, wanted: FollowRequest, expected: bool| {
            assert_eq!(is_wanted(&wanted, record), expected, "{wanted:?}");
        };
        let model = |model: &str| FollowRequest { model: model.into(), ..FollowRequest::default() };
        check(&record, FollowRequest::default(), true);
        check(&record, model("m"), true);
        check(&record, model("other"), false);
        check(&record, FollowRequest { request_id: "r-1".into(), ..model("m") }, true);
        check(&record, FollowRequest { request_id: "r-2".into(), ..model("m") }, false);
        let endpoint = |endpoint: &str| FollowRequest { endpoint: endpoint.into(), ..FollowRequest::default() };
        // The first was chosen, the second served.
        check(&record, endpoint("vllm-0"), true);
        check(&record, endpoint("10.0.0.1:8000"), true);
        check(&record, endpoint("vllm-1"), true);
        check(&record, endpoint("10.0.0.2:8000"), true);
        check(&record, endpoint("vllm-2"), false);
        let troubled = FollowRequest { troubled: true, ..FollowRequest::default() };
        check(&record, troubled.clone(), true);
        record.notes = vec!["estimated".to_owned()];
        check(&record, troubled.clone(), false);
        record.outcome.as_mut().expect("it has ended").status = Some(503);
        check(&record, troubled, true);
    }

    #[tokio::test]
    async fn where_nothing_happens_an_empty_message_says_that_the_stream_lives() {
        let feed = Feed::default();
        let asked = Request::new(FollowRequest { request_id: "last".into(), ..FollowRequest::default() });
        let stand = Stand { feed: feed.clone(), quiet: Duration::from_millis(20) };
        let mut told = stand.follow(asked).await.expect("a place").into_inner();
        let mut next = async || told.next().await.map(|message| message.expect("a message").told);
        feed.tell(record("another", true));
        assert_eq!(next().await, Some(None));
        feed.tell(record("last", true));
        // More of them, where this machine is slow.
        let said = loop {
            match next().await.expect("it lives") {
                None => {}
                Some(said) => break said,
            }
        };
        assert!(matches!(said, Said::Decision(_)));
    }

    #[tokio::test]
    async fn a_client_is_told_what_it_lost_and_the_end_and_that_there_is_no_place() {
        let feed = Feed::default();
        let stand = Stand { feed: feed.clone(), quiet: QUIET };
        let ask =
            || stand.follow(Request::new(FollowRequest { request_id: "last".into(), ..FollowRequest::default() }));
        let mut told = ask().await.expect("a place").into_inner();
        for number in 0..300 {
            feed.tell(record(&number.to_string(), true));
        }
        feed.tell(record("last", true));
        let mut others = Vec::new();
        while let Ok(place) = ask().await {
            others.push(place);
        }
        assert_eq!(ask().await.err().map(|status| status.code()), Some(tonic::Code::ResourceExhausted));
        feed.close();
        assert_eq!(ask().await.err().map(|status| status.code()), Some(tonic::Code::Unavailable));
        let mut next = async || told.next().await.map(|message| message.expect("a message").told.expect("something"));
        assert_eq!(next().await, Some(Said::Lost(45)));
        assert!(matches!(next().await, Some(Said::Decision(decision)) if decision.request_id == "last"));
        assert_eq!(next().await, None);
    }
}
