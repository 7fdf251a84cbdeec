# demo      the main job on real input, results and report in out/demo/
# test      every test, with what it needs installed first; ends with the runners' own summaries
# mutants   deliberate mistakes in a copy of the tree, each of which a test must catch; SHARD=1/40 is a 40th of them,
#           AREA="nand ubi" only these, RECORD=1 writes the scores into docs/proof.md
# thorough  what takes hours: fuzzing, every power cut, studies at full scale, a shard of the mutants
# bench     speed on this machine; RECORD=1 keeps the raw run in docs/performance/
# reference writes docs/format/experiment.md from the schema
# fmt       formats all sources

STUDIES = fastmap-data-peb fastmap-first-64 fastmap-30-days
# Seconds for each fuzz target.
FUZZ_SECONDS = 600

.PHONY: demo test mutants thorough bench reference fmt

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
	@SHARD=$(SHARD) AREA="$(AREA)" RECORD=$(RECORD) .ci/mutants

thorough:
	@FUZZ_SECONDS=$(FUZZ_SECONDS) .ci/thorough

bench:
	@.ci/bench

reference:
	@cargo run -q -p nandlab -- schema --markdown > docs/format/experiment.md.new
	@mv docs/format/experiment.md.new docs/format/experiment.md

fmt:
	cargo fmt --all
	cargo fmt --manifest-path fuzz/Cargo.toml
	@. .ci/tools && need_node && cd web && npm ci --silent && npm run -s format
