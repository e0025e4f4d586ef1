package node_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/internal/nodeguard"
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
	f.waitUntilServed()
	f.rebooted, f.untimed = "", ""
	before := f.containers()
	deleted := f.watchDeletions()
	client := f.startClient()
	defer func() {
		if f.Failed() {
			f.explain(before, deleted)
		}
	}()
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
	if f.rebooted != "" {
		f.eventually(name+": the pods of the node that was rebooted run again", func() string { return strings.Join(f.lost(before, deleted), "\n") })
	}
	f.waitUntilServed()
	f.pause(settleTime)
	result := outcome{Registered: registered.Seconds(), Unanswered: client.stop().Seconds(), Untimed: f.untimed}
	for _, lost := range f.lost(before, deleted) {
		result.Killed++
		f.Logf("%s: %s", name, lost)
	}
	if result.Killed > 0 && f.hasGuards {
		f.explain(before, deleted)
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

// waitUntilServed waits until the endpoints of the Service are those of the pods: kube-controller-manager has to lead for that.
func (f *fixture) waitUntilServed() {
	f.Helper()
	f.eventually("the Service has the endpoints of all pods", func() string {
		slices, err := f.client.DiscoveryV1().EndpointSlices(shop).List(f.Context(), metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=web"})
		if err != nil {
			return err.Error()
		}
		ready := 0
		for i := range slices.Items {
			for _, e := range slices.Items[i].Endpoints {
				if e.Conditions.Ready != nil && *e.Conditions.Ready {
					ready++
				}
			}
		}
		if ready < replicas {
			return fmt.Sprintf("%d endpoints are ready, want %d", ready, replicas)
		}
		return ""
	})
}

// container is a running container of the workloads.
type container struct{ node, pod, process string }

// containers returns the running containers of the workloads.
func (f *fixture) containers() map[container]bool {
	f.Helper()
	all := map[container]bool{}
	for _, node := range f.workers {
		for line := range strings.Lines(f.on(node, "pgrep -x answer | while read pid; do echo $pid/$(cut -d' ' -f22 /proc/$pid/stat) $(tail -1 /proc/$pid/cgroup); done")) {
			process, cgroup, _ := strings.Cut(strings.TrimSpace(line), " ")
			found := podInCgroup.FindStringSubmatch(cgroup)
			if found == nil {
				f.Fatalf("process %s of node %s has cgroup %q, want the UID of a pod in it", process, node, cgroup)
			}
			all[container{node, strings.ReplaceAll(found[1], "_", "-"), process}] = true
		}
	}
	if len(all) == 0 {
		f.Fatal("no containers of the workloads run")
	}
	return all
}

var podInCgroup = regexp.MustCompile(`pod([0-9a-f]{8}[-_][-_0-9a-f]{27})`)

// watchDeletions returns a function that reports whether a client has deleted a pod since, by the UID that the kubelet knows.
func (f *fixture) watchDeletions() (isDeleted func(uid string) bool) {
	f.Helper()
	events, err := f.client.CoreV1().Pods(shop).Watch(f.Context(), metav1.ListOptions{})
	f.must(err)
	var deleted sync.Map
	go func() { // until the API server ends the watch
		for e := range events.ResultChan() {
			if p, ok := e.Object.(*corev1.Pod); ok && p.DeletionTimestamp != nil && p.Labels["app"] != "" {
				deleted.Store(cmp.Or(p.Annotations[nodeguard.AnnotationRegistered], string(p.UID)), true)
			}
		}
	}()
	return func(uid string) bool {
		_, found := deleted.Load(uid)
		return found
	}
}

// lost returns which of the containers have ended. A reboot ends all containers of a node: there it returns those whose pods, by the UIDs that
// the kubelet knows, do not run again, and that no client has deleted. A controller deletes pods that are not ready yet in favor of
// replacements that are.
func (f *fixture) lost(before map[container]bool, deleted func(uid string) bool) (lost []string) {
	f.Helper()
	after, pods := f.containers(), map[string]bool{}
	for c := range after {
		pods[c.node+c.pod] = true
	}
	for c := range before {
		if !after[c] && (c.node != f.rebooted || !pods[c.node+c.pod] && !deleted(c.pod)) {
			lost = append(lost, fmt.Sprintf("container %s of pod %s on node %s ended; a client deleted the pod: %v", c.process, c.pod, c.node, deleted(c.pod)))
		}
	}
	return lost
}

// explain logs what is known of the pods whose containers were lost.
func (f *fixture) explain(before map[container]bool, deleted func(uid string) bool) {
	list, err := f.client.CoreV1().Pods(shop).List(f.Context(), metav1.ListOptions{})
	if err != nil {
		f.Log(err)
		return
	}
	for i := range list.Items {
		p := &list.Items[i]
		f.Logf("pod %s with UID %s on node %s, phase %s, deleted %v, annotations %v", p.Name, p.UID, p.Spec.NodeName, p.Status.Phase, p.DeletionTimestamp, p.Annotations)
	}
	for _, lost := range f.lost(before, deleted) {
		f.Log(lost)
		uid := podUID.FindString(lost)
		for _, node := range f.workers {
			out, err := f.tryOn(f.Context(), node, "ls /var/lib/breakwater-node/pods | grep "+uid+"; journalctl -u breakwater-node -u kubelet --no-pager | grep "+uid+" | cut -c1-300 | tail -25")
			f.Logf("%s: %v\n%s", node, err, out)
		}
	}
}

var podUID = regexp.MustCompile(`[0-9a-f]{8}-[-0-9a-f]{27}`)

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
