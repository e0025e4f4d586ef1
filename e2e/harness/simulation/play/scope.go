package play

import (
	"fmt"
	"time"

	"github.com/breakwater-k8s/breakwater/webhook/register"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/judge"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// createScope creates the webhook configuration and the namespaces of each worker.
func (ps *processes) createScope() {
	for _, c := range ps.env.workers {
		configuration, err := register.Configuration(register.Options{
			Name: "breakwater", Cell: c.name, Endpoint: register.Endpoint{URL: "https://webhook:443"}, TimeoutSeconds: int32(scenario.WebhookTimeout.Seconds()),
			ExemptNamespaces: webhookconfig.DefaultExemptNamespaces(), Scope: webhookconfig.ScopeProtected,
		})
		if err != nil {
			panic(fmt.Sprintf("simulation: webhook configuration of %s: %v", c.name, err))
		}
		c.create(apiserver.WebhookConfigurations, configuration)
		c.create(apiserver.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: types.UID(c.name)}})
		for n := range max(ps.env.scenario.Spaces, 1) {
			c.create(apiserver.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: scenario.NamespaceName(n)}})
		}
	}
}

// selectsNamespace reports whether the webhook is called for requests in the namespace of a pod, by what an API server knows of the namespace. It
// reads a namespace that its cache does not have.
func (c *clusterState) selectsNamespace(r *judge.Removal, pod *corev1.Pod) bool {
	plan := c.env.scenario.Scope
	if !plan.Protected {
		return true
	}
	seenAt, key := time.Now(), types.NamespacedName{Name: r.Pod.Namespace}
	if plan.Lag > 0 {
		seenAt = seenAt.Add(-c.env.dice.Between(0, plan.Lag, fmt.Sprintf("%s namespace cache %d", r.ID, seenAt.UnixNano())))
	}
	if seenAt.Before(c.restoredAt) {
		seenAt = c.restoredAt
	}
	space, ok := c.store.GetAt(apiserver.Namespaces, key, seenAt)
	if !ok {
		var err error
		if space, err = c.store.Get(apiserver.Namespaces, key); err != nil {
			return true // the API server denies the request; so does the webhook, or it reserves the removal
		}
		seenAt = time.Now()
	}
	if space.GetLabels()[v1alpha1.LabelProtected] == "true" {
		return true
	}
	c.env.judge.RecordBypass(c.name, r, pod, seenAt)
	return false
}

// removeLabel removes the label of a namespace, as a client can while the policy that prevents it does not exist.
func (ws *workloads) removeLabel(s scenario.Step) {
	c, key := ws.env.cell(s), types.NamespacedName{Name: scenario.NamespaceName(s.Who % max(ws.env.scenario.Spaces, 1))}
	_, _ = c.store.Update(apiserver.Namespaces, key, "", scenario.User, func(o client.Object) error {
		labels, annotations := scenario.CopyOf(o.GetLabels()), scenario.CopyOf(o.GetAnnotations())
		if delete(labels, v1alpha1.LabelProtected); s.N%2 == 0 {
			delete(annotations, v1alpha1.AnnotationProtectedBy)
		}
		o.SetLabels(labels)
		o.SetAnnotations(annotations)
		return nil
	})
}

// recreateNamespace deletes a namespace, and creates it without the label after a while. Its pods go with it, or stay if a client removed the
// finalizers of the namespace.
func (ws *workloads) recreateNamespace(s scenario.Step) {
	c, key := ws.env.cell(s), types.NamespacedName{Name: scenario.NamespaceName(s.Who % max(ws.env.scenario.Spaces, 1))}
	pods := 0
	if s.N%2 == 0 {
		for _, pod := range c.pods() {
			if pod.Namespace == key.Name {
				_, _ = c.store.Delete("pods", client.ObjectKeyFromObject(pod), "", "")
				pods++
			}
		}
	}
	c.store.Lose(apiserver.Namespaces, key)
	ws.env.runAfter(s.For, func() {
		_, _ = c.store.Create(apiserver.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: key.Name}}, scenario.User)
		for range pods {
			p := ws.newPod(c)
			p.Namespace = key.Name
			scenario.SetReady(p, true)
			c.create("pods", p)
		}
	})
}
