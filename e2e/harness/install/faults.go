package install

import (
	"context"
	"fmt"
	"strconv"
	"syscall"
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
	one, err := p.process(component)
	if err != nil {
		return err
	}
	one.expected.Store(true)
	if err := one.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-one.ended
	return nil
}

// Terminate asks a component to end, kills it after the grace period, and returns when it has ended.
func (p *Processes) Terminate(component string) error {
	one, err := p.process(component)
	if err != nil {
		return err
	}
	one.terminate(p.grace)
	return nil
}

// ExpectExit allows a component to end by itself from now on. It returns a channel that is closed when the component has ended.
func (p *Processes) ExpectExit(component string) (ended <-chan struct{}, err error) {
	one, err := p.process(component)
	if err != nil {
		return nil, err
	}
	one.expected.Store(true)
	return one.ended, nil
}

// Freeze suspends a component in the middle of its work. Its connections stay open.
func (p *Processes) Freeze(component string) error { return p.signal(component, syscall.SIGSTOP) }

// Thaw resumes a frozen component.
func (p *Processes) Thaw(component string) error { return p.signal(component, syscall.SIGCONT) }

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

func (p *Processes) signal(component string, signal syscall.Signal) error {
	one, err := p.process(component)
	if err != nil {
		return err
	}
	return one.signal(signal)
}

func (p *Processes) process(component string) (*process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one, ok := p.processes[component]; ok {
		return one, nil
	}
	return nil, fmt.Errorf("component %q was not started", component)
}

func (p *process) signal(signal syscall.Signal) error {
	if err := syscall.Kill(-p.cmd.Process.Pid, signal); err != nil {
		return fmt.Errorf("send %s to %s: %w", signal, p.name, err)
	}
	return nil
}
