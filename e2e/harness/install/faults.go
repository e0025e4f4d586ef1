package install

import (
	"context"
	"fmt"
	"strconv"

	"github.com/breakwater-k8s/breakwater/e2e/harness/subprocess"
)

// GeneratorName returns the component name of a core's generator.
func GeneratorName(core string) string { return "generator-" + core }

// TopologyName returns the component name of a core's topology controller.
func TopologyName(core string) string { return "topology-" + core }

// AggregatorName returns the component name of the aggregator of a core's cell.
func AggregatorName(core, cell string) string { return "aggregator-" + core + "-" + cell }

// SharedAggregatorName returns the component name of the aggregator of all cells of a core.
func SharedAggregatorName(core string) string { return "aggregator-" + core }

// AggregatorRing is the ring of the aggregators that share the cells.
const AggregatorRing = "aggregators"

// AggregatorShardName returns the component name of the nth aggregator shard of a core, from 0. It is also its shard name.
func AggregatorShardName(core string, n int) string {
	return "aggregator-" + core + "-" + strconv.Itoa(n)
}

// WebhookName returns the component name of the nth webhook, from 0.
func WebhookName(n int) string { return "webhook-" + strconv.Itoa(n) }

// Kill ends a component at once, without a chance to clean up, and returns when it has ended.
func (p *Processes) Kill(component string) error {
	return p.apply(component, (*subprocess.Process).Kill)
}

// Terminate asks a component to end, kills it after the grace period, and returns when it has ended.
func (p *Processes) Terminate(component string) error {
	return p.apply(component, func(one *subprocess.Process) error { return one.Terminate(context.Background(), p.grace) })
}

// Freeze suspends a component in the middle of its work. Its connections stay open.
func (p *Processes) Freeze(component string) error {
	return p.apply(component, (*subprocess.Process).Freeze)
}

// Thaw resumes a frozen component.
func (p *Processes) Thaw(component string) error {
	return p.apply(component, (*subprocess.Process).Thaw)
}

func (p *Processes) apply(component string, fault func(*subprocess.Process) error) error {
	one, err := p.process(component)
	if err != nil {
		return err
	}
	if err := fault(one.Process); err != nil {
		return fmt.Errorf("%s: %w", component, err)
	}
	return nil
}

// ExpectExit allows a component to end by itself from now on. It returns a channel that is closed when the component has ended.
func (p *Processes) ExpectExit(component string) (ended <-chan struct{}, err error) {
	one, err := p.process(component)
	if err != nil {
		return nil, err
	}
	one.ExpectExit()
	return one.Ended, nil
}

// Restart starts a killed component with the same arguments, and returns when it is ready.
func (p *Processes) Restart(ctx context.Context, component string) error {
	one, err := p.process(component)
	if err != nil {
		return err
	}
	return p.startOne(ctx, one.component)
}

// StartStandby starts another replica of a component under a different name, and returns when it is ready.
func (p *Processes) StartStandby(ctx context.Context, original, name string) error {
	one, err := p.process(original)
	if err != nil {
		return err
	}
	return p.startOne(ctx, component{name: name, program: one.program, arguments: one.arguments})
}

func (p *Processes) process(component string) (*process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one, ok := p.processes[component]; ok {
		return one, nil
	}
	return nil, fmt.Errorf("component %q was not started", component)
}
