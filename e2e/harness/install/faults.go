package install

import (
	"context"
	"fmt"
	"strconv"
	"syscall"
)

// GeneratorName is the name of a core's generator as a component.
func GeneratorName(core string) string { return "generator-" + core }

// TopologyName is the name of a core's topology controller as a component.
func TopologyName(core string) string { return "topology-" + core }

// AggregatorName is the name of the aggregator of a core's cell as a component.
func AggregatorName(core, cell string) string { return "aggregator-" + core + "-" + cell }

// FleetAggregatorName is the name of the aggregator of all cells of a core as a component.
func FleetAggregatorName(core string) string { return "aggregator-" + core }

// AggregatorRing is the ring of aggregators that share cells out.
const AggregatorRing = "aggregators"

// AggregatorShardName is the name of the nth of those of a core as a component, from 0, and as a shard.
func AggregatorShardName(core string, n int) string {
	return "aggregator-" + core + "-" + strconv.Itoa(n)
}

// WebhookName is the name of the nth webhook as a component, from 0.
func WebhookName(n int) string { return "webhook-" + strconv.Itoa(n) }

// Kill ends a component at once, without a chance to clean up, and returns when it is gone.
func (p *Processes) Kill(component string) error {
	one, err := p.process(component)
	if err != nil {
		return err
	}
	one.wanted.Store(true)
	if err := one.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-one.ended
	return nil
}

// Terminate asks a component to end, kills it when it takes too long, and returns when it is gone.
func (p *Processes) Terminate(component string) error {
	one, err := p.process(component)
	if err != nil {
		return err
	}
	one.terminate(p.grace)
	return nil
}

// Dismiss takes it that a component may end by itself from now on, and returns what is closed when it has.
func (p *Processes) Dismiss(component string) (ended <-chan struct{}, err error) {
	one, err := p.process(component)
	if err != nil {
		return nil, err
	}
	one.wanted.Store(true)
	return one.ended, nil
}

// Freeze makes a component stop in the middle of what it does; its connections stay open.
func (p *Processes) Freeze(component string) error { return p.signal(component, syscall.SIGSTOP) }

// Thaw makes a frozen component go on.
func (p *Processes) Thaw(component string) error { return p.signal(component, syscall.SIGCONT) }

// Restart starts a component that was killed, with the arguments that it had, and returns when it is ready.
func (p *Processes) Restart(ctx context.Context, component string) error {
	one, err := p.process(component)
	if err != nil {
		return err
	}
	return p.startOne(ctx, one.component)
}

// StandBy starts another replica of a component under a name of its own, and returns when it is ready.
func (p *Processes) StandBy(ctx context.Context, original, name string) error {
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
	if one, ok := p.all[component]; ok {
		return one, nil
	}
	return nil, fmt.Errorf("no component %q was started", component)
}

func (p *process) signal(signal syscall.Signal) error {
	if err := syscall.Kill(-p.cmd.Process.Pid, signal); err != nil {
		return fmt.Errorf("send %s to %s: %w", signal, p.name, err)
	}
	return nil
}
