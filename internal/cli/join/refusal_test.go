package join_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/cli/join"
)

func TestWhatCannotBeJoinedIsRefusedAndNothingIsLeft(t *testing.T) {
	for claim, test := range map[string]struct {
		spoil  func(*lab)
		change func(*join.Joiner)
		want   string
	}{
		"one cluster with itself": {
			change: func(j *join.Joiner) { j.Worker = j.Core }, want: "are one cluster",
		},
		"a worker without the chart": {
			spoil: func(l *lab) { l.remove(l.worker, &corev1.ServiceAccount{ObjectMeta: l.named(l.account())}) },
			want:  "the worker has no ServiceAccount",
		},
		"a core without the chart, which is asked second": {
			spoil: func(l *lab) {
				l.remove(l.core, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: l.account() + "-cell"}})
			},
			want: "role: core (or single) and access.enabled: true",
		},
		"a Cell that is in another cluster": {
			spoil: func(l *lab) {
				cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: l.namespace}}
				l.create(l.core, cell)
				cell.Status.Cluster = "another"
				if err := l.core.admin.Status().Update(l.Context(), cell); err != nil {
					l.Fatal(err)
				}
			},
			want: "is in another cluster (another)",
		},
		"a Cell that goes by another Secret": {
			spoil: func(l *lab) {
				cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: l.namespace}}
				cell.Spec.KubeconfigSecretRef = &v1alpha1.KubeconfigSecretRef{Namespace: "a", Name: "b"}
				l.create(l.core, cell)
			},
			want: "belongs to somebody else",
		},
		"a kubeconfig of somebody else": {
			spoil: func(l *lab) {
				l.create(l.worker, &corev1.Secret{ObjectMeta: l.named("core-core"), Data: map[string][]byte{"kubeconfig": []byte("theirs")}})
			},
			want: "/core-core in the worker belongs to somebody else",
		},
		"a ServiceAccount of the core that may do too little": {
			spoil: func(l *lab) { l.empty() }, want: `may not "list podprotectors.breakwater.dev" in the core`,
		},
		"a ServiceAccount of the worker that may do too little": {
			spoil: func(l *lab) { l.forget(l.worker) }, want: `may not "list pods" in the worker`,
		},
		"a ServiceAccount of the core that may not read scheduling policies": {
			change: func(j *join.Joiner) { j.Scheduling = true },
			want:   `may not "list podschedulingpolicies.breakwater.dev" in the core: upgrade the chart breakwater there, with webhook.scheduling.enabled: true`,
		},
		"an address of another cluster": {
			change: func(j *join.Joiner) { j.Worker.Server, j.Worker.CA = j.Core.Config.Host, j.Core.Config.CAData },
			want:   "try the new kubeconfig of the worker",
		},
		"an authority that does not vouch for the address": {
			change: func(j *join.Joiner) { j.Core.CA = j.Worker.Config.CAData }, want: "certificate signed by unknown authority",
		},
		"an address that nobody answers": {
			change: func(j *join.Joiner) { j.Core.Server = "https://" + deaf }, want: "try the new kubeconfig of the core, which leads to https://" + deaf,
		},
		"an address that is none": {
			change: func(j *join.Joiner) { j.Core.Server = "core.example:6443" }, want: "is not https://HOST[:PORT]",
		},
		"names and times that are none": {
			change: func(j *join.Joiner) { j.Cell, j.Lifetime, j.Only = "A", time.Minute, "up" }, want: "--token-lifetime 1m0s",
		},
		"a kubeconfig that trusts everybody": {
			change: func(j *join.Joiner) { j.Core.Config = insecure(j.Core.Config) }, want: "trusts whoever answers",
		},
	} {
		t.Run(claim, func(t *testing.T) {
			l := newLab(t)
			if test.spoil != nil {
				test.spoil(l)
			}
			change := test.change
			if change == nil {
				change = func(*join.Joiner) {}
			}
			l.refused(test.want, change)
		})
	}
}

func TestWithoutACheckAnAddressIsBelieved(t *testing.T) {
	l := newLab(t)
	out := l.join(func(j *join.Joiner) { j.SkipCheck, j.Core.Server = true, "https://core.example:6443" })
	if !strings.Contains(out, "leads to https://core.example:6443") || strings.Contains(out, "--core-server") {
		t.Errorf("it says\n%s", out)
	}
}

func TestWhoStopsWaitingIsToldWhatIsLeft(t *testing.T) {
	l := newLab(t)
	l.join()
	ctx, cancel := context.WithCancel(t.Context())
	j, out := l.joiner(func(j *join.Joiner) { j.Grace = time.Hour })
	j.Out = stopper{cancel}
	if err := j.Run(ctx); err == nil || !strings.Contains(err.Error(), "the former ones were left") || strings.Count(out.String(), "still keeps a former token valid") != 2 {
		t.Errorf("%v\n%s", err, out)
	}
	if len(l.tokens(l.core)) != 2 {
		t.Errorf("tokens %v, want two", l.tokens(l.core))
	}
	l.wantUser("the new one", l.intoCore(), l.ownAccount())
}

// stopper cancels the context when join starts to wait for the grace period.
type stopper struct{ stop func() }

func (s stopper) Write(p []byte) (int, error) {
	if strings.HasPrefix(string(p), "Former tokens:") {
		s.stop()
	}
	return len(p), nil
}

// deaf is an address without a listener: unprivileged processes cannot listen on so low a port.
var deaf = net.JoinHostPort("127.0.0.1", "1")

func (l *lab) named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: l.namespace, Name: name}
}

func (l *lab) remove(p plane, object client.Object) {
	l.Helper()
	if err := p.admin.Delete(l.Context(), object); err != nil {
		l.Fatal(err)
	}
}

// forget removes the permissions of the other cluster's components.
func (l *lab) forget(p plane) {
	l.Helper()
	l.remove(p, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: l.namespace + "-" + l.account()}})
}

// empty removes all permissions from the ClusterRole of the accounts of cells.
func (l *lab) empty() {
	l.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: l.account() + "-cell"}}
	if err := l.core.admin.Update(l.Context(), role); err != nil {
		l.Fatal(err)
	}
}

// insecure returns a configuration like that of a kubeconfig with insecure-skip-tls-verify.
func insecure(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Insecure, config.CAData, config.CAFile = true, nil, ""
	return config
}
