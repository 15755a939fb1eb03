#!/bin/sh
# Makes a release of the version in Cargo.toml: image for amd64 and arm64 with provenance, a bill of materials, signatures, and
# the chart.
#
#   deploy/release.sh [--dry-run]         # prints the commands instead
#
# Needed: docker with buildx and a builder for several platforms (`docker buildx create --use`), syft, cosign and helm, all logged in to
# the registry. Signing is keyless (Sigstore): in CI by the job's identity, else by a browser. REGISTRY is where images go.
set -eu
cd "$(dirname "$0")/.."
registry=${REGISTRY:-ghcr.io/warmpath}
out=${OUT:-target/release-files}
run() { echo "+ $*" >&2; "$@"; }
case ${1:-} in
  '') ;;
  --dry-run) run() { echo "+ $*"; } ;;
  *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | sed '$d' >&2; exit 2 ;;
esac
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
for key in version appVersion; do
  grep -qx "$key: $version" charts/warmpath/Chart.yaml || { echo "charts/warmpath/Chart.yaml: $key isn't $version" >&2; exit 1; }
done
grep -q "^## \[$version\]" CHANGELOG.md || { echo "CHANGELOG.md has no section [$version]" >&2; exit 1; }
[ -z "$(git status --porcelain)" ] || { echo "the work tree has changes" >&2; exit 1; }
[ "$(git describe --tags --exact-match 2>/dev/null)" = "v$version" ] || { echo "HEAD isn't the tag v$version" >&2; exit 1; }

mkdir -p "$out"
image=$registry/epp
run docker buildx build --file deploy/image/Dockerfile --target epp --platform linux/amd64,linux/arm64 \
  --provenance=mode=max --label "org.opencontainers.image.version=$version" --label "org.opencontainers.image.revision=$(git rev-parse HEAD)" \
  --tag "$image:$version" --metadata-file "$out/image.json" --push .
# Everything from here on is about what was pushed, and not about a tag that may move.
digest=$(sed -n 's/.*"containerimage.digest": *"\(sha256:[0-9a-f]*\)".*/\1/p' "$out/image.json" 2>/dev/null || true)
[ "${1:-}" = --dry-run ] && digest=sha256:DIGEST
[ -n "$digest" ] || { echo "$out/image.json names no digest" >&2; exit 1; }
for platform in linux/amd64 linux/arm64; do
  sbom=$out/sbom-$(basename "$platform").spdx.json
  run syft scan "registry:$image@$digest" --platform "$platform" --output "spdx-json=$sbom"
  run cosign attest --yes --type spdxjson --predicate "$sbom" "$image@$digest"
done
run cosign sign --yes --recursive "$image@$digest"

run helm package charts/warmpath --destination "$out"
chart=$registry/charts/warmpath
pushed=$(run helm push "$out/warmpath-$version.tgz" "oci://$registry/charts" 2>&1) || { echo "$pushed" >&2; exit 1; }
echo "$pushed"
chart_digest=$(echo "$pushed" | sed -n 's/^Digest: *\(sha256:[0-9a-f]*\)$/\1/p')
[ "${1:-}" = --dry-run ] && chart_digest=sha256:DIGEST
[ -n "$chart_digest" ] || { echo "helm push named no digest" >&2; exit 1; }
run cosign sign --yes "$chart@$chart_digest"

cat >&2 <<END
released $image:$version and $chart:$version; to verify them, and the image's bills of materials (each names the platform's digest):
  ours() {
    cosign "\$@" --certificate-oidc-issuer https://token.actions.githubusercontent.com \\
      --certificate-identity-regexp '^https://github\.com/warmpath/warmpath/'
  }
  ours verify $image@$digest
  ours verify-attestation --type spdxjson $image@$digest
  ours verify $chart@$chart_digest
END
