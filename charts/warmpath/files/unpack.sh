# Joins the parts of a bundle (deploy/tokenizer-bundle.sh) and unpacks it, whole or not at all. Without it the picker starts all the
# same, unless REQUIRED: prompts are picked for by load then, and WarmpathTokenizerMissing fires.
set -u
if cat /bundle/part-* | gunzip -t && cat /bundle/part-* | gunzip | tar -xf - -C /files; then
  exit 0
fi
echo "WARMPATH: NO TOKENIZER: the bundle can't be unpacked; are all of its ConfigMaps named, and of one bundle?" >&2
[ "$REQUIRED" != true ]
