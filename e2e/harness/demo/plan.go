package demo

import (
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// requestsPerClient and the times bound the storm: by time on a slow machine, by number of requests on a fast one.
const (
	requestsPerClient = 100
	randomTime        = 8 * time.Second
	waveTime          = 6 * time.Second
	collectionTimes   = 20
)

// plan returns the storm. It begins with the accident in the core, which deletes the Deployment that the floor is derived from,
// and with clients. At that time the ReplicaSets still replace lost pods, so the budget changes all the time. The cascade at the
// end deletes the ReplicaSets too.
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
