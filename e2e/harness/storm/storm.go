package storm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Attack removes pods in one way. Run returns when its work is done or when ctx ends, which is no error. An error means that it could not
// attack at all.
type Attack interface {
	Name() string
	Run(ctx context.Context, tally *Tally) error
}

// Wave is an attack that begins After the start of the storm, and is cut off after the duration For.
type Wave struct {
	Attack Attack
	After  time.Duration
	For    time.Duration
}

// Storm is several attacks, each in its time.
type Storm struct {
	waves   []Wave
	tallies []*Tally

	mu    sync.Mutex
	spans []span
}

type span struct{ began, ended time.Time }

// Progress is the progress of one attack. Began and Ended are zero until the attack has begun or ended.
type Progress struct {
	Attack       string
	Counts       Counts
	Began, Ended time.Time
}

// New returns a storm.
func New(waves ...Wave) *Storm {
	s := &Storm{waves: waves, spans: make([]span, len(waves))}
	for range waves {
		s.tallies = append(s.tallies, &Tally{})
	}
	return s
}

// Run runs all attacks to their ends.
func (s *Storm) Run(ctx context.Context) error {
	var running sync.WaitGroup
	faults := make([]error, len(s.waves))
	for i, wave := range s.waves {
		running.Go(func() {
			if err := s.run(ctx, i); err != nil {
				faults[i] = fmt.Errorf("%s: %w", wave.Attack.Name(), err)
			}
		})
	}
	running.Wait()
	return errors.Join(append(faults, ctx.Err())...)
}

func (s *Storm) run(ctx context.Context, i int) error {
	wave := s.waves[i]
	select {
	case <-time.After(wave.After):
	case <-ctx.Done():
		return nil
	}
	s.updateSpan(func() { s.spans[i].began = time.Now() })
	defer s.updateSpan(func() { s.spans[i].ended = time.Now() })
	ctx, cancel := context.WithTimeout(ctx, wave.For)
	defer cancel()
	return wave.Attack.Run(ctx, s.tallies[i])
}

func (s *Storm) updateSpan(set func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set()
}

// Progress returns the progress of the attacks, in the order of New.
func (s *Storm) Progress() []Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Progress
	for i, wave := range s.waves {
		all = append(all, Progress{
			Attack: wave.Attack.Name(), Counts: s.tallies[i].Counts(),
			Began: s.spans[i].began, Ended: s.spans[i].ended,
		})
	}
	return all
}

// Counts adds up all attacks.
func (s *Storm) Counts() Counts {
	var all Counts
	for _, tally := range s.tallies {
		all = all.Plus(tally.Counts())
	}
	return all
}

// Example returns an error with that outcome, from the first attack that had one.
func (s *Storm) Example(outcome Outcome) (string, bool) {
	for _, tally := range s.tallies {
		if example, ok := tally.Example(outcome); ok {
			return example, true
		}
	}
	return "", false
}
