# demo      the main job on real input, results and report in out/demo/
# test      every test, with what it needs installed first; ends with the runners' own summaries
# mutants   deliberate mistakes in a copy of the tree, each of which a test must catch; SHARD=1/40 is a 40th of them,
#           AREA="nand ubi" only these, AGAIN=1 only what survived before, RECORD=1 writes the scores into docs/proof.md
# thorough  what takes hours: fuzzing, every power cut, studies at full scale, a shard of the mutants; ONLY='cuts of' is a
#           regular expression for the names of its steps
# bench     speed on this machine; RECORD=1 keeps the raw run in docs/performance/
# truth     runs every study whole and writes docs/truth.md, from the logs of the tree alone; minutes
# reference writes docs/format/experiment.md from the schema
# fmt       formats all sources

STUDIES = fastmap-data-peb fastmap-first-64 fastmap-30-days
# Seconds for each fuzz target.
FUZZ_SECONDS = 600

.PHONY: demo test mutants thorough bench truth reference fmt

# Exit code 1 says that a claim missed: the demo reports it and is done all the same.
demo:
	@cargo build --release -p nandlab
	@code=0; cargo run --release -q -p nandlab -- study $(STUDIES) --quick --out out/demo --force || code=$$?; \
	if [ $$code -gt 1 ]; then exit $$code; fi; \
	if [ $$code -eq 1 ]; then echo; echo "Some claims missed; the tables above and each study's SOURCE.md say which and why."; fi; \
	echo; echo "Report: out/demo/report.html (open it in a browser)"

test:
	@.ci/test

mutants:
	@SHARD=$(SHARD) AREA="$(AREA)" AGAIN=$(AGAIN) RECORD=$(RECORD) .ci/mutants

thorough:
	@FUZZ_SECONDS=$(FUZZ_SECONDS) ONLY="$(ONLY)" .ci/thorough

bench:
	@.ci/bench

# An empty cache: logs that this machine has and the tree has not would make another page. Exit code 1 says that a claim missed.
truth:
	@cargo build --release -q -p nandlab
	@cache=$$(mktemp -d); code=0; NANDLAB_CACHE=$$cache target/release/nandlab study all --markdown > docs/truth.md.new || code=$$?; \
	rm -r $$cache; if [ $$code -gt 1 ]; then rm docs/truth.md.new; exit $$code; fi; mv docs/truth.md.new docs/truth.md

reference:
	@cargo run -q -p nandlab -- schema --markdown > docs/format/experiment.md.new
	@mv docs/format/experiment.md.new docs/format/experiment.md

fmt:
	cargo fmt --all
	@. .ci/tools && need_node && cd web && npm ci --silent && npm run -s format
