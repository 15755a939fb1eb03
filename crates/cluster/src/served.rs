//! Which of the groups that a kind may have is served by this cluster.

use kube::Client;
use kube::core::{ApiResource, GroupVersionKind};

/// The groups of objectives and rewrites; the newer one goes before the older one.
const GROUPS: [&str; 2] = ["llm-d.ai", "inference.networking.x-k8s.io"];
const VERSION: &str = "v1alpha2";

/// The resource of that kind, in the first group that has it; `None` where none has.
///
/// # Errors
/// Where the API server can't be asked.
pub(crate) async fn resource(client: &Client, kind: &str) -> Result<Option<ApiResource>, kube::Error> {
    for group in GROUPS {
        let listed = match client.list_api_group_resources(&format!("{group}/{VERSION}")).await {
            Ok(listed) => listed,
            Err(kube::Error::Api(status)) if status.code == 404 => continue,
            Err(error) => return Err(error),
        };
        if let Some(found) = listed.resources.iter().find(|resource| resource.kind == kind) {
            let gvk = GroupVersionKind::gvk(group, VERSION, kind);
            return Ok(Some(ApiResource::from_gvk_with_plural(&gvk, &found.name)));
        }
    }
    Ok(None)
}
