package node_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// play causes a disaster, and measures what it does.
func (f *fixture) play(name string, cause func(*fixture)) { f.playWith(name, cause, nil) }

// playWith also causes a fault right before the disaster, and repairs it when a minute has passed.
func (f *fixture) playWith(name string, cause func(*fixture), fault func(*fixture) (repair func())) {
	f.Helper()
	if f.Failed() {
		return
	}
	f.waitUntilComplete()
	before := f.containers()
	client := f.startClient()
	var repair func()
	if fault != nil {
		repair = fault(f)
	}
	cause(f)
	began := time.Now()
	repaired := make(chan struct{})
	go func() {
		defer close(repaired)
		if repair != nil {
			repair()
		}
	}()
	f.eventually(name+": all pods are registered again", f.problem)
	registered := time.Since(began)
	<-repaired
	f.waitForNodes()
	f.pause(settleTime)
	after := f.containers()
	result := outcome{Registered: registered.Seconds(), Unanswered: client.stop().Seconds()}
	for id, pod := range before {
		if after[id] == "" {
			result.Killed++
			f.Logf("%s: container %s of %s ended", name, id, pod)
		}
	}
	f.Logf("FIGURE %s: %+v", name, result)
	f.outcomes = append(f.outcomes, namedOutcome{name, result})
}

func (f *fixture) outcomesByName() map[string]outcome {
	all := map[string]outcome{}
	for _, o := range f.outcomes {
		all[o.Name] = o.outcome
	}
	return all
}

func (f *fixture) pause(d time.Duration) {
	select {
	case <-f.Context().Done():
	case <-time.After(d):
	}
}

// containers returns the running containers of the workloads' pods, by ID, with a name.
func (f *fixture) containers() map[string]string {
	f.Helper()
	all := map[string]string{}
	for _, node := range f.workers {
		for line := range strings.Lines(f.on(node, "pgrep -x answer | while read pid; do echo $pid $(cut -d/ -f4- /proc/$pid/cgroup | tail -1) $(cut -d' ' -f22 /proc/$pid/stat); done")) {
			fields := strings.Fields(line)
			all[node+"/"+strings.Join(fields, "/")] = node
		}
	}
	if len(all) == 0 {
		f.Fatal("no containers of the workloads run")
	}
	return all
}

// countingClient sends requests to the Service all the time.
type countingClient struct {
	cancel  context.CancelFunc
	ended   sync.WaitGroup
	longest time.Duration
}

// startClient starts a client of the Service. It asks the control plane's node, which no disaster affects.
func (f *fixture) startClient() *countingClient {
	ctx, cancel := context.WithCancel(f.Context())
	c := &countingClient{cancel: cancel}
	url := fmt.Sprintf("http://%s:%d/", f.address(f.control), nodePort)
	c.ended.Go(func() {
		sender := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		last := time.Now()
		for ctx.Err() == nil {
			response, err := sender.Get(url) //nolint:noctx // the timeout ends it
			if err == nil {
				_ = response.Body.Close()
				c.longest, last = max(c.longest, time.Since(last)), time.Now()
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
		c.longest = max(c.longest, time.Since(last))
	})
	return c
}

// stop returns the longest time without an answer.
func (c *countingClient) stop() time.Duration {
	c.cancel()
	c.ended.Wait()
	return c.longest
}

// deleteByForce deletes a pod without a grace period: its container must end, in spite of the guard.
func (f *fixture) deleteByForce() {
	f.Helper()
	f.waitUntilComplete()
	list, err := f.client.CoreV1().Pods(shop).List(f.Context(), metav1.ListOptions{LabelSelector: "app=" + deploymentLabel})
	f.must(err)
	before := len(f.containers())
	f.must(f.client.CoreV1().Pods(shop).Delete(f.Context(), list.Items[0].Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	began := time.Now()
	f.eventually("the container of a pod that was deleted by force ends", func() string {
		for _, node := range f.workers {
			if out := f.on(node, "ls /var/lib/breakwater-node/pods | grep "+string(list.Items[0].UID)+" || true"); out != "" {
				return "the guard still knows " + out
			}
		}
		return ""
	})
	f.waitUntilComplete()
	if after := len(f.containers()); after != before {
		f.Errorf("%d containers run after a deletion by force and its replacement, want %d", after, before)
	}
	f.Logf("FIGURE deletion by force: the replacement is complete after %s", time.Since(began).Round(time.Millisecond))
}
