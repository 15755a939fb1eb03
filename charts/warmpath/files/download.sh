# Fetches a model's files from URL. Without them the picker starts all the same, unless REQUIRED: prompts are picked for by load
# then, and WarmpathTokenizerMissing fires.
set -u
fetch() {
  status=$(printf '%s' "${TOKEN:+header = \"Authorization: Bearer $TOKEN\"}" | curl --config - --silent --show-error --location \
    --retry "$ATTEMPTS" --retry-all-errors --retry-delay 2 --connect-timeout 10 --max-time 300 \
    --create-dirs --output "/files/$1.part" --write-out '%{http_code}' "$URL/$1")
  if [ "$status" = 200 ]; then
    mv "/files/$1.part" "/files/$1"
  else
    rm -f "/files/$1.part"
    [ "$status" = 404 ] && [ "$2" = optional ] && return 0
    echo "WARMPATH: NO TOKENIZER: $URL/$1 can't be fetched (status $status)" >&2
    return 1
  fi
}
if fetch tokenizer.json needed && fetch tokenizer_config.json needed; then
  ok=true
  for file in config.json chat_template.jinja chat_template.json additional_chat_templates/tool_use.jinja; do
    fetch "$file" optional || ok=false
  done
  # A template that is left away by accident would make other prompts than the engines see.
  [ "$ok" = true ] && exit 0
  rm -f /files/tokenizer.json
fi
[ "$REQUIRED" != true ]
