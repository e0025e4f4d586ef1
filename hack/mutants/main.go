// Command mutants puts one fault at a time into the safety rules and reports whether the proofs catch it: first the property
// tests, then the simulation. The tests of the simulation's judge catch faults in the judge. Sources are not modified; Go applies
// the fault as an overlay during the build. What caught which fault is written to mutants-report/table.md, and to hack/mutants/caught.yaml:
// the next run tries that first, and needs a few seconds for most faults.
package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/yaml"
)

type mutant struct {
	Name    string `json:"name"`
	Rule    string `json:"rule"`
	File    string `json:"file"`
	Find    string `json:"find"`
	Replace string `json:"replace"`
	// caughtBy is the proof that caught it last, and the test or the seed; empty if none did.
	caughtBy string
}

// judgeRule is the rule of mutants in the judge. All other mutants are in the product.
const judgeRule = "judge"

// The tests that prove the rules of the product, and those of shares.
var (
	//go:embed properties.txt
	propertiesList string
	//go:embed properties_of_shares.txt
	propertiesOfSharesList string
)

// proof is a set of tests that may catch a mutant.
type proof struct {
	name     string
	packages []string
	run      string
	// seed is the one seed of a simulation that is played; empty for all.
	seed string
}

// isFor reports whether the proof may catch a mutant. The rules of shares, S1 to S6, have proofs of their own. Only the simulation of owners has
// workloads that rule 16 tells apart.
func (p proof) isFor(m mutant) bool {
	isOfShares := strings.HasPrefix(m.Rule, "S")
	if m.Rule == ownersRule && p.name != properties && p.name != ownerSimulation {
		return false
	}
	return (m.Rule == judgeRule) == (p.name == judgeTests) && isOfShares == strings.HasSuffix(p.name, "of shares")
}

const (
	judgeTests, properties, ownerSimulation = "tests of the judge", "properties", "simulation of owners"
	// ownersRule is the rule by which a workload states the number of pods.
	ownersRule = "16"
)

// proofs returns all proofs, the cheapest first.
func proofs() []proof {
	return append(shareProofs(), []proof{
		{properties, []string{
			"./internal/core/quota", "./internal/sharding/members", "./internal/sharding/ownership", "./internal/sharding/slot", "./internal/core/podhealth",
			"./internal/core/heartbeat", "./internal/core/policy", "./internal/clusters",
			"./aggregator", "./aggregator/conditions", "./aggregator/guard", "./aggregator/modes", "./aggregator/snapshot",
			"./aggregator/stream", "./aggregator/workloads",
			"./webhook", "./webhook/reserve", "./webhook/review", "./webhook/register", "./webhook/wake",
			"./internal/core/brake", "./controllers/brake", "./controllers/keeper", "./controllers/generator", "./controllers/inventory", "./controllers/topology",
			"./internal/core/removal", "./internal/core/podhold", "./internal/nodeguard", "./internal/core/succession", "./internal/core/workload",
			"./api/sharding",
		}, anyOf(propertiesList), ""},
		{judgeTests, []string{"./e2e/harness/simulation/judge"}, "^TestTheJudge", ""},
		{"simulation", []string{"./e2e/harness/simulation"}, "^TestSeeds$", ""},
		{ownerSimulation, []string{"./e2e/harness/simulation"}, "^TestOwnerSeeds$", ""},
		{"simulation of escrows", []string{"./e2e/harness/simulation"}, "^TestEscrowSeeds$", ""},
		{"simulation of shards", []string{"./e2e/harness/simulation"}, "^TestSharedSeeds$", ""},
		{"corpus", []string{"./e2e/harness/simulation"}, "^TestCorpus$", ""},
		{"properties at length", []string{"./aggregator", "-rapid.checks=40000"}, "^TestSettlementKeepsReservationsInFlight$", ""},
	}...)
}

// anyOf returns the pattern that matches the tests of a list with one name a line.
func anyOf(list string) string {
	return "^(" + strings.Join(strings.Fields(list), "|") + ")$"
}

// shareProofs returns the proofs of rules S1 to S6, the cheapest first.
func shareProofs() []proof {
	return []proof{
		{"properties of shares", []string{
			"./internal/core/floorshare", "./internal/core/quota", "./internal/core/removal", "./internal/core/rootguard", "./aggregator", "./aggregator/shares",
			"./webhook/reserve", "./webhook/review",
		}, anyOf(propertiesOfSharesList), ""},
		{"simulation of shares", []string{"./e2e/harness/simulation"}, "^TestShareSeeds$", ""},
	}
}

func main() {
	seeds := flag.Int("seeds", 600, "how many `seeds` the simulation runs for each mutant")
	by := flag.String("by", "", "the one `proof` to try: properties, \"tests of the judge\", simulation, \"simulation of owners\", \"simulation of escrows\", "+
		"\"simulation of shards\", corpus or "+
		"\"properties at length\"; empty: all, until one catches the mutant")
	only := flag.String("only", "", "`pattern` of the names of the mutants to try")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, *seeds, *by, *only)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, seeds int, proof, only string) error {
	mutants, err := load(mutantsFile, only)
	if err != nil {
		return err
	}
	mutants = slices.DeleteFunc(mutants, func(m mutant) bool { return len(selectProofs([]mutant{m}, proof)) == 0 })
	caught, err := tryAll(ctx, out, mutants, seeds, proof)
	if err != nil {
		return err
	}
	if err := errors.Join(writeTable(tableFile, mutants, caught), recordCaught(mutants, caught)); err != nil {
		return err
	}
	survived := 0
	for _, by := range caught {
		if by == "" {
			survived++
		}
	}
	if survived > 0 {
		return fmt.Errorf("%d of %d mutants survived or could not be tested", survived, len(mutants))
	}
	return nil
}

// tryAll tries as many mutants in parallel as there are CPUs, because the simulation uses one. It returns what caught each
// mutant, or "" for a mutant that nothing caught or that could not be tried.
func tryAll(ctx context.Context, out io.Writer, mutants []mutant, seeds int, proof string) ([]string, error) {
	caught := make([]string, len(mutants))
	baselines := &baselines{seeds: seeds, checks: map[string]func() error{}}
	var mu sync.Mutex // guards out
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.NumCPU())
	for i, m := range mutants {
		group.Go(func() error {
			folder, err := os.MkdirTemp("", "breakwater-mutant-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(folder)
			by, err := m.try(ctx, folder, seeds, proof, baselines)
			if ctx.Err() != nil {
				return err
			}
			caught[i] = by
			verdict := "caught"
			switch {
			case err != nil:
				verdict = "NOT TRIED: " + err.Error() // try the others anyway, because a run takes long
			case by == "":
				verdict = "SURVIVED"
			}
			mu.Lock()
			defer mu.Unlock()
			_, err = fmt.Fprintf(out, "rule %-5s  %-55s  by %-40s  %s\n", m.Rule, m.Name, cmp.Or(by, "nothing"), verdict)
			return err
		})
	}
	return caught, group.Wait()
}

func load(file, only string) ([]mutant, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var list struct {
		Mutants []mutant `json:"mutants"`
	}
	if err := yaml.UnmarshalStrict(raw, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	pattern, err := regexp.Compile(only)
	if err != nil {
		return nil, err
	}
	before, err := readCaught()
	if err != nil {
		return nil, err
	}
	var selected []mutant
	for _, m := range list.Mutants {
		m.caughtBy = before[m.Name]
		if pattern.MatchString(m.Name) {
			selected = append(selected, m)
		}
	}
	return selected, nil
}

// selectProofs returns the proofs that apply to the mutants. An empty name selects all.
func selectProofs(mutants []mutant, name string) []proof {
	return slices.DeleteFunc(proofs(), func(p proof) bool {
		return name != "" && name != p.name || !slices.ContainsFunc(mutants, p.isFor)
	})
}

// baselines are the proofs without any fault. One that fails would catch everything. Each runs when a mutant first needs it, and once: most faults are caught
// by the tests of their package, so that the long proofs run rarely. It is safe for concurrent use.
type baselines struct {
	seeds  int
	mu     sync.Mutex
	checks map[string]func() error
}

// check returns an error if a proof fails without a fault.
func (b *baselines) check(ctx context.Context, p proof) error {
	b.mu.Lock()
	key := p.name + " of " + strings.Join(p.packages, " ")
	if b.checks[key] == nil {
		b.checks[key] = sync.OnceValue(func() error {
			result := p.runTests(ctx, b.seeds)
			if result.err != nil { // a test with a real API server may time out on a busy machine
				result = p.runTests(ctx, b.seeds)
			}
			if result.err != nil {
				return fmt.Errorf("the %s fail without a mutant, so they prove nothing: %s", p.name, result.output)
			}
			return nil
		})
	}
	check := b.checks[key]
	b.mu.Unlock()
	return check()
}

func (p proof) runTests(ctx context.Context, seeds int, build ...string) outcome {
	arguments := append([]string{"test", "-count=1", "-failfast", "-vet=off", "-timeout=14m", "-run", p.run}, build...)
	arguments = append(arguments, p.packages...)
	switch {
	case p.seed != "":
		arguments = append(arguments, "-quick", "-seeds", "6", "-from", p.seed)
	case strings.HasPrefix(p.name, "simulation"):
		arguments = append(arguments, "-quick", "-seeds", strconv.Itoa(seeds))
	}
	return command(ctx, arguments...)
}

// try runs the proofs with the fault, and returns what caught it first; "" if nothing did.
func (m mutant) try(ctx context.Context, folder string, seeds int, proof string, baselines *baselines) (by string, err error) {
	overlay, err := m.overlay(folder)
	if err != nil {
		return "", err
	}
	all := selectProofs([]mutant{m}, proof)
	for _, p := range append(m.lastProof(all), m.ownPackageFirst(all)...) {
		result := p.runTests(ctx, seeds, "-overlay", overlay)
		if strings.Contains(result.output, "[build failed]") {
			return "", fmt.Errorf("its tests do not build: %s", result.output)
		}
		if strings.Contains(result.output, "panic: test timed out") {
			return "", fmt.Errorf("the %s timed out: %s", p.name, result.output)
		}
		if result.err != nil {
			if err := cmp.Or(ctx.Err(), baselines.check(ctx, p.whole(all))); err != nil {
				return "", err
			}
			return p.name + ", " + result.failedTest(), nil
		}
	}
	return "", nil
}

// ownPackageFirst puts the tests of the package with the fault before the proofs, if one of the proofs runs these tests. They catch most
// faults, and need only one test binary.
func (m mutant) ownPackageFirst(all []proof) []proof {
	own := "./" + filepath.ToSlash(filepath.Dir(m.File))
	for _, p := range all {
		if len(p.packages) > 1 && slices.Contains(p.packages, own) {
			return append([]proof{{p.name, []string{own}, p.run, ""}}, all...)
		}
	}
	return all
}

// lastProof returns the part of a proof that caught the mutant last: one test, or one seed. It returns none if there is no such part any more.
func (m mutant) lastProof(all []proof) []proof {
	name, what, _ := strings.Cut(m.caughtBy, ", ")
	i := slices.IndexFunc(all, func(p proof) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	p := all[i]
	if seed, isSeed := strings.CutPrefix(what, "seed "); isSeed {
		p.seed = seed
		return []proof{p}
	}
	for _, folder := range p.packages {
		files, _ := filepath.Glob(folder + "/*_test.go") // the pattern is valid
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), "\nfunc "+what+"(") {
				return []proof{{p.name, []string{folder}, "^" + what + "$", ""}}
			}
		}
	}
	return nil
}

// whole returns the proof of which p is a part: in the same package, and with all its tests or seeds. One check without a fault serves all mutants then.
func (p proof) whole(all []proof) proof {
	i := slices.IndexFunc(all, func(other proof) bool { return other.name == p.name })
	return proof{p.name, p.packages, all[i].run, ""}
}

// overlay writes the changed file, and the overlay file for Go.
func (m mutant) overlay(folder string) (string, error) {
	raw, err := os.ReadFile(m.File)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(raw), m.Find); n != 1 {
		return "", fmt.Errorf("%s contains the mutant's text %d times, want 1: the mutant is stale", m.File, n)
	}
	changed := filepath.Join(folder, "changed.go")
	if err := os.WriteFile(changed, []byte(strings.Replace(string(raw), m.Find, m.Replace, 1)), 0o600); err != nil {
		return "", err
	}
	original, err := filepath.Abs(m.File)
	if err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(folder, "overlay.json")
	return overlay, os.WriteFile(overlay, list, 0o600)
}

type outcome struct {
	output string
	err    error
}

func command(ctx context.Context, arguments ...string) outcome {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", arguments...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.Env = append(os.Environ(), "RAPID_NOFAILFILE=true") // no fail files in the working tree
	err := cmd.Run()
	if exit := (&exec.ExitError{}); err != nil && !errors.As(err, &exit) {
		return outcome{err.Error(), err}
	}
	return outcome{output.String(), err}
}

// failedTest returns the test or the seed that failed.
func (o outcome) failedTest() string {
	for _, pattern := range []string{`seed \d+`, `--- FAIL: (\w+)`, `panic: [^\n]{0,60}`} {
		if found := regexp.MustCompile(pattern).FindString(o.output); found != "" {
			return strings.TrimPrefix(found, "--- FAIL: ")
		}
	}
	return "an unknown failure"
}

const (
	mutantsFile = "hack/mutants/mutants.yaml"
	tableFile   = "mutants-report/table.md"
	caughtFile  = "hack/mutants/caught.yaml"
)

// readCaught returns what caught each mutant last, by its name.
func readCaught() (before map[string]string, err error) {
	raw, err := os.ReadFile(caughtFile)
	if err != nil {
		return nil, err
	}
	if err := yaml.UnmarshalStrict(raw, &before); err != nil {
		return nil, fmt.Errorf("%s: %w", caughtFile, err)
	}
	return before, nil
}

// recordCaught records what caught these mutants. It keeps what is recorded of others that exist.
func recordCaught(mutants []mutant, caught []string) error {
	all, err := load(mutantsFile, "")
	if err != nil {
		return err
	}
	now := map[string]string{}
	for _, m := range all {
		if m.caughtBy != "" {
			now[m.Name] = m.caughtBy
		}
	}
	for i, m := range mutants {
		if caught[i] != "" {
			now[m.Name] = caught[i]
		}
	}
	raw, err := yaml.Marshal(now)
	if err != nil {
		return err
	}
	return os.WriteFile(caughtFile, raw, 0o600)
}

// writeTable writes a file with what caught which mutant, in the order of the mutants.
func writeTable(file string, mutants []mutant, caught []string) error {
	var text strings.Builder
	text.WriteString("| rule | fault | caught by |\n| --- | --- | --- |\n")
	for i, m := range mutants {
		fmt.Fprintf(&text, "| %s | %s | %s |\n", m.Rule, m.Name, cmp.Or(caught[i], "nothing"))
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text.String()), 0o600)
}
