#!/bin/sh
# Packs a model's tokenizer and templates into ConfigMaps for the chart's `models[].files.bundle`.
#
#   deploy/tokenizer-bundle.sh MODEL_DIRECTORY NAME > bundle.yaml
#   kubectl --namespace inference apply --server-side -f bundle.yaml
#
# They are called NAME-0, NAME-1 and so on: a ConfigMap holds 1 MiB, a tokenizer packed takes 2 to 5 MB. `apply` must be
# server-side, or `create`: the copy that a client-side apply keeps doesn't fit into an annotation.
set -eu
[ $# = 2 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | sed '$d' >&2; exit 2; }
directory=$1 name=$2
[ -f "$directory/tokenizer.json" ] || [ -f "$directory/tokenizer.json.xz" ] || { echo "$directory has no tokenizer.json" >&2; exit 1; }
parts=$(mktemp -d)
trap 'rm -rf "$parts"' EXIT
(
  cd "$directory"
  for file in tokenizer.json tokenizer.json.xz tokenizer_config.json config.json chat_template.jinja chat_template.json additional_chat_templates; do
    [ -e "$file" ] && echo "$file"
  done
  true
) >"$parts/names"
tar -cf "$parts/all" -C "$directory" -T "$parts/names"
gzip -9 -n "$parts/all"
split -b 768000 -a 3 "$parts/all.gz" "$parts/part-"
number=0
for part in "$parts"/part-*; do
  printf -- '---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s-%s\nbinaryData:\n  %s: ' "$name" "$number" "${part##*/}"
  base64 <"$part" | tr -d '\n'
  echo
  number=$((number + 1))
done
echo "$number ConfigMaps: $name-0 to $name-$((number - 1))" >&2
