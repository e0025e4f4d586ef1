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
func (i *Installation) Kill(component string) error {
	p, err := i.process(component)
	if err != nil {
		return err
	}
	p.wanted.Store(true)
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.ended
	return nil
}

// End asks a component to end, as who scales it down does, and returns when it has.
func (i *Installation) End(component string) error {
	p, err := i.process(component)
	if err != nil {
		return err
	}
	p.terminate(i.options.Grace)
	return nil
}

// Freeze makes a component stop in the middle of what it does; its connections stay open.
func (i *Installation) Freeze(component string) error { return i.signal(component, syscall.SIGSTOP) }

// Thaw makes a frozen component go on.
func (i *Installation) Thaw(component string) error { return i.signal(component, syscall.SIGCONT) }

// Restart starts a component that was killed, with the arguments that it had, and returns when it is ready.
func (i *Installation) Restart(ctx context.Context, component string) error {
	p, err := i.process(component)
	if err != nil {
		return err
	}
	return i.startOne(ctx, p.component)
}

// StandBy starts another replica of a component under a name of its own, and returns when it is ready.
func (i *Installation) StandBy(ctx context.Context, original, name string) error {
	p, err := i.process(original)
	if err != nil {
		return err
	}
	return i.startOne(ctx, component{name: name, arguments: p.arguments})
}

func (i *Installation) signal(component string, signal syscall.Signal) error {
	p, err := i.process(component)
	if err != nil {
		return err
	}
	return p.signal(signal)
}

func (i *Installation) process(component string) (*process, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if p, ok := i.processes[component]; ok {
		return p, nil
	}
	return nil, fmt.Errorf("no component %q was started", component)
}

func (p *process) signal(signal syscall.Signal) error {
	if err := syscall.Kill(-p.cmd.Process.Pid, signal); err != nil {
		return fmt.Errorf("send %s to %s: %w", signal, p.name, err)
	}
	return nil
}
