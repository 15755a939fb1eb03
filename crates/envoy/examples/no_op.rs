//! The least that an ext_proc server can do, as a measure of what asking one costs at all: it names one destination at once,
//! and gives every part of a body back as it comes, in full duplex. In: the port to listen on and the destination
//! (`no_op 9002 127.0.0.1:8001`); out: answers, until it is killed. It reads nothing and remembers nothing.
//!
//! `cargo xtask latency` sets the picker beside it.

use std::env;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;

use envoy_types::pb::envoy::config::core::v3::{HeaderValue, HeaderValueOption};
use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_server::{
    ExternalProcessor, ExternalProcessorServer,
};
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request as Asked;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response as Answer;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    BodyMutation, BodyResponse, CommonResponse, HeaderMutation, HeadersResponse, HttpBody, ProcessingRequest,
    ProcessingResponse, StreamedBodyResponse, TrailersResponse,
};
use tokio_stream::{Stream, StreamExt as _};
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let (port, destination) = arguments.next().zip(arguments.next()).ok_or("no_op PORT DESTINATION")?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse()?));
    Server::builder()
        .max_concurrent_streams(4096)
        .add_service(ExternalProcessorServer::new(NoOp { destination: destination.into() }))
        .serve(address)
        .await?;
    Ok(())
}

struct NoOp {
    destination: Vec<u8>,
}

#[tonic::async_trait]
impl ExternalProcessor for NoOp {
    type ProcessStream = Pin<Box<dyn Stream<Item = Result<ProcessingResponse, Status>> + Send>>;

    async fn process(
        &self,
        request: Request<Streaming<ProcessingRequest>>,
    ) -> Result<Response<Self::ProcessStream>, Status> {
        let destination = self.destination.clone();
        let answers = request.into_inner().filter_map(move |message| match message {
            Ok(message) => answer(message.request?, &destination).map(Ok),
            Err(status) => Some(Err(status)),
        });
        Ok(Response::new(Box::pin(answers)))
    }
}

fn answer(asked: Asked, destination: &[u8]) -> Option<ProcessingResponse> {
    let response = match asked {
        Asked::RequestHeaders(_) => Answer::RequestHeaders(named(destination)),
        Asked::RequestBody(body) => Answer::RequestBody(given_back(body)),
        Asked::RequestTrailers(_) => Answer::RequestTrailers(TrailersResponse::default()),
        Asked::ResponseHeaders(_) => Answer::ResponseHeaders(HeadersResponse::default()),
        Asked::ResponseBody(body) => Answer::ResponseBody(given_back(body)),
        Asked::ResponseTrailers(_) => Answer::ResponseTrailers(TrailersResponse::default()),
    };
    Some(ProcessingResponse { response: Some(response), ..ProcessingResponse::default() })
}

fn named(destination: &[u8]) -> HeadersResponse {
    let header = HeaderValue {
        key: "x-gateway-destination-endpoint".to_owned(),
        raw_value: destination.to_vec(),
        ..HeaderValue::default()
    };
    let set_headers = vec![HeaderValueOption { header: Some(header), ..HeaderValueOption::default() }];
    let header_mutation = Some(HeaderMutation { set_headers, ..HeaderMutation::default() });
    let response = CommonResponse { header_mutation, clear_route_cache: true, ..CommonResponse::default() };
    HeadersResponse { response: Some(response) }
}

fn given_back(body: HttpBody) -> BodyResponse {
    let part = StreamedBodyResponse { body: body.body, end_of_stream: body.end_of_stream, ..Default::default() };
    let body_mutation = Some(BodyMutation { mutation: Some(Mutation::StreamedResponse(part)) });
    BodyResponse { response: Some(CommonResponse { body_mutation, ..CommonResponse::default() }) }
}
