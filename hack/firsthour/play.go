package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/proxy"
	"github.com/breakwater-k8s/breakwater/e2e/harness/release"
)

const (
	// image is pulled by no node: kwok runs the pods.
	image = "registry.k8s.io/pause:3.10"
	// outage is how long kubectl drain and kubectl delete may run while the core is unreachable.
	outage = 45 * time.Second
	// replicas of the Deployment in the outage, of which the default floor leaves some budget: a refusal then needs the core.
	replicas = 8
	// step bounds the wait for one condition, pause is the time between two looks at it.
	step, pause = 90 * time.Second, 500 * time.Millisecond
)

// play is one run.
type play struct {
	cluster *cluster
	chart   string
	out     io.Writer
	report  report
}

func (p *play) run(ctx context.Context) error {
	for _, part := range []struct {
		title string
		play  func(context.Context) error
	}{
		{"Deploying what a user has already", p.deploy},
		{"Installing without values, and deleting pods until a refusal", p.install},
		{"Draining and deleting while the core is unreachable", p.loseCore},
		{"Deleting unprotected pods while no webhook runs", p.loseWebhook},
	} {
		began := time.Now()
		if err := part.play(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.title, err)
		}
		_, _ = fmt.Fprintf(p.out, "%s: %s\n", part.title, time.Since(began).Round(100*time.Millisecond))
	}
	return nil
}

// deploy creates a Deployment to protect, and another one in a namespace that gets no protector.
func (p *play) deploy(ctx context.Context) error {
	for _, command := range []string{
		"kubectl create deployment web --image=" + image + " --replicas=3",
		"kubectl create namespace other",
		"kubectl create deployment batch --image=" + image + " --replicas=4 -n other",
		"kubectl rollout status deployment web --timeout=60s",
		"kubectl rollout status deployment batch -n other --timeout=60s",
	} {
		if _, err := p.cluster.run(ctx, strings.Fields(command)...); err != nil {
			return err
		}
	}
	return nil
}

// install runs the commands of a user until one is refused because of the floor.
func (p *play) install(ctx context.Context) error {
	u, began := &user{cluster: p.cluster}, time.Now()
	for _, command := range []string{
		"helm install breakwater " + p.chart + " -n " + release.Namespace + " --create-namespace --wait",
		"kubectl label deployment web breakwater.dev/protect=true",
	} {
		if _, err := u.run(ctx, strings.Fields(command)...); err != nil {
			return err
		}
	}
	err := wait.PollUntilContextTimeout(ctx, pause, step, true, func(ctx context.Context) (bool, error) {
		out, err := u.run(ctx, "kubectl", "delete", "pods", "-l", "app=web")
		p.report.RemovedBeforeDenial += strings.Count(out, " deleted")
		if err == nil {
			return false, nil
		}
		if !strings.Contains(out, "than its floor") {
			return false, err
		}
		p.report.Denied = 1
		return true, nil
	})
	p.report.SecondsToDenial = time.Since(began).Seconds()
	p.report.Commands, p.report.ValuesNeeded, p.report.CommandLines = len(u.typed), u.values(), u.lines()
	return err
}

// loseCore stalls the connections of Breakwater to the API server, as a frozen core does, while kubectl still reaches it.
func (p *play) loseCore(ctx context.Context) error {
	if _, err := p.cluster.run(ctx, "kubectl", "scale", "deployment", "web", fmt.Sprintf("--replicas=%d", replicas)); err != nil {
		return err
	}
	if err := p.await(ctx, "2", "podprotector", "deployment-web", "-o", "jsonpath={.status.disruptionsAllowed}"); err != nil {
		return err
	}
	p.cluster.pods.Stall(proxy.Both)
	nodes, err := p.cluster.run(ctx, "kubectl", "get", "nodes", "-o", "name")
	if err != nil {
		return err
	}
	var drain, deletions []answer
	var clients errgroup.Group
	clients.Go(func() error {
		command := append([]string{"kubectl", "drain", "--pod-selector=app=web", "--timeout=" + (outage - 5*time.Second).String()}, strings.Fields(nodes)...)
		drain = p.cluster.removals(ctx, outage, command...)
		return nil
	})
	clients.Go(func() error {
		for until := time.Now().Add(outage); time.Now().Before(until); {
			deletions = append(deletions, p.cluster.removals(ctx, time.Until(until), "kubectl", "delete", "pods", "-l", "app=web", "--wait=false")...)
		}
		return nil
	})
	err = clients.Wait()
	p.report.setOutage(drain, deletions)
	if len(drain) == 0 || len(deletions) == 0 {
		err = errors.Join(err, fmt.Errorf("kubectl logged %d answers to its drain and %d to its deletions, want some of both", len(drain), len(deletions)))
	}
	return errors.Join(err, p.cluster.pods.Heal(ctx))
}

// loseWebhook ends all webhooks, and deletes each pod of a namespace without protectors once.
func (p *play) loseWebhook(ctx context.Context) error {
	if _, err := p.cluster.run(ctx, "kubectl", "scale", "deployment", "breakwater-webhook", "--replicas=0", "-n", release.Namespace); err != nil {
		return err
	}
	webhooks := []string{"pods", "-n", release.Namespace, "-l", "app.kubernetes.io/component=webhook", "-o", "name"}
	if err := p.await(ctx, "", webhooks...); err != nil {
		return err
	}
	for _, a := range p.cluster.removals(ctx, step, "kubectl", "delete", "pods", "--all", "-n", "other", "--wait=false") {
		if a.denied() {
			p.report.UnprotectedDenied++
		} else {
			p.report.UnprotectedDeleted++
		}
	}
	if p.report.UnprotectedDenied+p.report.UnprotectedDeleted == 0 {
		return errors.New("kubectl logged no answer to a deletion")
	}
	return nil
}

// await waits until kubectl get prints the text.
func (p *play) await(ctx context.Context, want string, get ...string) error {
	var out string
	err := wait.PollUntilContextTimeout(ctx, pause, step, true, func(ctx context.Context) (bool, error) {
		var err error
		out, err = p.cluster.run(ctx, append([]string{"kubectl", "get"}, get...)...)
		return err == nil && strings.TrimSpace(out) == want, nil
	})
	if err != nil {
		err = fmt.Errorf("kubectl get %s prints %q, want %q: %w", strings.Join(get, " "), out, want, err)
	}
	return err
}
