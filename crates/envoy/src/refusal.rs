//! Why a request isn't served, and what its client is told.
//!
//! In: a reason, with words for a person. Out: an HTTP status, a short reason for machines, and a JSON body in the shape of
//! OpenAI's errors. This file alone chooses the status.

use std::borrow::Cow;

/// Why not. The text of each says what the client or the operator can do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The request is wrong, and no endpoint would take it: 400.
    #[error("{0}")]
    BadRequest(Cow<'static, str>),
    /// The body is larger than the picker may hold: 413.
    #[error(
        "the request body is larger than {limit} bytes, the most this gateway reads of a request; send a shorter one"
    )]
    TooLarge {
        /// The most that is held of one request, in bytes.
        limit: usize,
    },
    /// Every endpoint has all the work it can take: 429.
    #[error("{0}")]
    Saturated(Cow<'static, str>),
    /// No endpoint may or can serve it: 503.
    #[error("{0}")]
    NoEndpoint(Cow<'static, str>),
    /// The picker is going away: 503.
    #[error("the endpoint picker is shutting down; send the request again")]
    ShuttingDown,
    /// The picker itself failed: 500.
    #[error("{0}")]
    Internal(Cow<'static, str>),
}

impl Refusal {
    /// The HTTP status.
    pub fn status(&self) -> u16 {
        match self {
            Self::BadRequest(_) => 400,
            Self::TooLarge { .. } => 413,
            Self::Saturated(_) => 429,
            Self::Internal(_) => 500,
            Self::NoEndpoint(_) | Self::ShuttingDown => 503,
        }
    }

    /// The value of `x-llm-d-request-dropped-reason`, where the request was dropped for the fleet's sake and not for its own.
    pub fn dropped_reason(&self) -> Option<&'static str> {
        match self {
            Self::Saturated(_) => Some("rejected-saturated"),
            Self::NoEndpoint(_) => Some("rejected-no-endpoints"),
            Self::ShuttingDown => Some("rejected-shutting-down"),
            Self::BadRequest(_) | Self::TooLarge { .. } | Self::Internal(_) => None,
        }
    }

    /// A short name for metrics and the gateway's access log.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::BadRequest(_) => "bad_request",
            Self::TooLarge { .. } => "too_large",
            Self::Saturated(_) => "saturated",
            Self::NoEndpoint(_) => "no_endpoint",
            Self::ShuttingDown => "shutting_down",
            Self::Internal(_) => "internal",
        }
    }

    /// The body, JSON as OpenAI's servers write errors.
    pub fn body(&self) -> String {
        let kind = match self {
            Self::BadRequest(_) | Self::TooLarge { .. } => "invalid_request_error",
            Self::Saturated(_) => "rate_limit_error",
            Self::NoEndpoint(_) | Self::ShuttingDown => "service_unavailable_error",
            Self::Internal(_) => "server_error",
        };
        serde_json::json!({
            "error": { "message": self.to_string(), "type": kind, "param": null, "code": self.as_str() }
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::Refusal;

    fn check(refusal: &Refusal, told: &str) {
        let body: serde_json::Value = serde_json::from_str(&refusal.body()).unwrap();
        let error = &body["error"];
        assert_eq!(body.as_object().unwrap().len(), 1);
        assert!(error["param"].is_null());
        let text = |name: &str| error[name].as_str().unwrap().to_owned();
        let reason = refusal.dropped_reason().unwrap_or("-");
        let now = format!("{} {reason} {} {}: {}", refusal.status(), text("type"), text("code"), text("message"));
        assert_eq!(now, told);
    }

    #[test]
    fn each_reason_has_its_status_and_words_for_machines_and_people() {
        check(&Refusal::BadRequest("say \"model\"".into()), "400 - invalid_request_error bad_request: say \"model\"");
        check(
            &Refusal::TooLarge { limit: 9 },
            "413 - invalid_request_error too_large: the request body is larger than 9 bytes, the most this gateway reads \
             of a request; send a shorter one",
        );
        check(&Refusal::Saturated("full".into()), "429 rejected-saturated rate_limit_error saturated: full");
        check(
            &Refusal::NoEndpoint("none".into()),
            "503 rejected-no-endpoints service_unavailable_error no_endpoint: none",
        );
        check(
            &Refusal::ShuttingDown,
            "503 rejected-shutting-down service_unavailable_error shutting_down: the endpoint picker is shutting down; \
             send the request again",
        );
        check(&Refusal::Internal("broken".into()), "500 - server_error internal: broken");
    }
}
