//! Who somebody is and what they may do, by the cluster's own word: a TokenReview, then a SubjectAccessReview.
//!
//! In: a token and what its bearer wants; out: a [`Verdict`], or that the API server can't be asked, which is no verdict. Nothing
//! is remembered here.

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};

use crate::watch::{Unreachable, chain, connect};

/// Asks the API server. Takes the rights to create `tokenreviews` (`authentication.k8s.io`) and `subjectaccessreviews`
/// (`authorization.k8s.io`).
#[derive(Clone)]
pub struct Reviews {
    client: Client,
}

/// What the API server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is nobody's token, or not one any more.
    Stranger,
    /// They may not.
    Forbidden {
        /// Who they are.
        user: String,
    },
    /// They may.
    Allowed,
}

/// The API server couldn't be asked: nothing is known of the one who wants something.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unasked(String);

impl Reviews {
    /// Asked by that client.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Asked as [`connect`] does.
    ///
    /// # Errors
    /// Where there is no access to an API server.
    pub async fn connect() -> Result<Self, Unreachable> {
        Ok(Self::new(connect().await?))
    }

    /// Whether the token's bearer may do that (a verb in lower case) to a path that is no resource.
    ///
    /// # Errors
    /// Where the API server can't be asked, or doesn't let us ask.
    pub async fn review(&self, token: &str, verb: &str, path: &str) -> Result<Verdict, Unasked> {
        let Some(user) = self.user(token).await? else { return Ok(Verdict::Stranger) };
        let name = user.username.clone().unwrap_or_default();
        if self.may(user, verb, path).await? { Ok(Verdict::Allowed) } else { Ok(Verdict::Forbidden { user: name }) }
    }

    async fn user(&self, token: &str) -> Result<Option<UserInfo>, Unasked> {
        let asked = TokenReview {
            spec: TokenReviewSpec { token: Some(token.to_owned()), ..TokenReviewSpec::default() },
            ..TokenReview::default()
        };
        let api = Api::<TokenReview>::all(self.client.clone());
        let answer =
            api.create(&PostParams::default(), &asked).await.map_err(|error| unasked("tokenreviews", &error))?;
        let status = answer.status.unwrap_or_default();
        Ok(status.user.filter(|_| status.authenticated == Some(true)))
    }

    async fn may(&self, user: UserInfo, verb: &str, path: &str) -> Result<bool, Unasked> {
        let wanted = NonResourceAttributes { path: Some(path.to_owned()), verb: Some(verb.to_owned()) };
        let spec = SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            non_resource_attributes: Some(wanted),
            ..SubjectAccessReviewSpec::default()
        };
        let asked = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let api = Api::<SubjectAccessReview>::all(self.client.clone());
        let answer = api
            .create(&PostParams::default(), &asked)
            .await
            .map_err(|error| unasked("subjectaccessreviews", &error))?;
        Ok(answer.status.is_some_and(|status| status.allowed && status.denied != Some(true)))
    }
}

fn unasked(kind: &str, error: &kube::Error) -> Unasked {
    Unasked(format!("{kind} can't be created: {}", chain(error)))
}
