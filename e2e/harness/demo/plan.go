package demo

import (
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// requestsPerClient and the times bound the storm: on a slow machine by time, on a fast one by number.
const (
	requestsPerClient = 100
	randomTime        = 8 * time.Second
	waveTime          = 6 * time.Second
	collectionTimes   = 20
)

// plan is the storm. It begins with the accident in the core, which deletes what the floor is derived from, and with clients, while
// the ReplicaSets still replace what is lost, so that budget comes and goes all the time. The cascade at the end takes the
// ReplicaSets too.
func plan(o Options, first accident, scope storm.Scope, recorder *storm.Recorder) *storm.Storm {
	return storm.New(
		storm.Wave{Attack: first, After: 900 * time.Millisecond, For: waveTime},
		storm.Wave{
			Attack: storm.RandomDeletes{Recorder: recorder, Clients: o.Clients, Each: requestsPerClient, Seed: o.Seed},
			After:  time.Second, For: randomTime,
		},
		storm.Wave{
			Attack: storm.EvictionWave{Recorder: recorder, Clients: o.Clients, Seed: o.Seed},
			After:  2500 * time.Millisecond, For: waveTime,
		},
		storm.Wave{
			Attack: storm.DeleteCollection{Scope: scope, Times: collectionTimes},
			After:  4 * time.Second, For: waveTime,
		},
		storm.Wave{
			Attack: storm.Cascade{Scope: scope},
			After:  5500 * time.Millisecond, For: waveTime,
		},
	)
}
