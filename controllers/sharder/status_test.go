package sharder

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// waitForConfiguration waits until unmet returns no complaint about the ring's webhook configuration.
func (l *fixture) waitForConfiguration(claim string, unmet func(*admissionregistrationv1.MutatingWebhookConfiguration) string) *admissionregistrationv1.MutatingWebhookConfiguration {
	l.Helper()
	have := &admissionregistrationv1.MutatingWebhookConfiguration{}
	l.eventually(claim, func() string {
		have = &admissionregistrationv1.MutatingWebhookConfiguration{}
		if err := l.Get(l.Context(), client.ObjectKey{Name: configurationPrefix + l.ring.Name}, have); err != nil {
			return err.Error()
		}
		if len(have.Webhooks) != 1 {
			return fmt.Sprintf("got %d webhooks, want 1", len(have.Webhooks))
		}
		return unmet(have)
	})
	return have
}

func TestWebhookConfigurationMatchesUnassignedObjects(t *testing.T) {
	l := newFixture(t)
	l.start()
	have := l.waitForConfiguration("the webhook configuration is created", func(*admissionregistrationv1.MutatingWebhookConfiguration) string { return "" })
	hook := have.Webhooks[0]
	var rules []string
	for _, rule := range hook.Rules {
		rules = append(rules, fmt.Sprint(rule.Operations, rule.APIGroups, rule.APIVersions, rule.Resources)+" "+string(*rule.Scope))
	}
	if want := []string{"[CREATE UPDATE] [] [*] [configmaps] *", "[CREATE UPDATE] [] [*] [secrets] *"}; !slices.Equal(rules, want) {
		t.Errorf("got rules %q, want %q", rules, want)
	}
	if *hook.FailurePolicy != admissionregistrationv1.Ignore || *hook.TimeoutSeconds != 2 || *hook.SideEffects != admissionregistrationv1.SideEffectClassNone ||
		*hook.ReinvocationPolicy != admissionregistrationv1.IfNeededReinvocationPolicy || *hook.MatchPolicy != admissionregistrationv1.Equivalent {
		t.Errorf("got configuration %+v", hook)
	}
	if *hook.ClientConfig.URL != l.webhook.URL+"/rings/"+l.ring.Name || !bytes.Equal(hook.ClientConfig.CABundle, l.clientConfig().CABundle) {
		t.Errorf("got client configuration %+v", hook.ClientConfig)
	}
	if hook.NamespaceSelector.MatchLabels[l.label()] != "true" || hook.ObjectSelector.MatchExpressions[0].Key != v1alpha1.LabelShard(l.ring.Name) ||
		hook.ObjectSelector.MatchExpressions[0].Operator != metav1.LabelSelectorOpDoesNotExist {
		t.Errorf("got objectSelector %+v and namespaceSelector %+v", hook.ObjectSelector, hook.NamespaceSelector)
	}
	if owner := metav1.GetControllerOf(have); owner == nil || owner.UID != l.ring.UID || have.Annotations["cert-manager.io/inject-ca-from"] != "ns/certificate" {
		t.Errorf("got owners %+v and annotations %v", owner, have.Annotations)
	}
	l.waitForStatus("the status reports it", hasCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonConfigured))

	// The sharder reverts manual changes.
	have.Webhooks[0].FailurePolicy = ptr.To(admissionregistrationv1.Fail)
	have.Webhooks[0].Rules = have.Webhooks[0].Rules[:1]
	have.Webhooks[0].ObjectSelector = nil
	l.must(l.Update(t.Context(), have))
	l.waitForConfiguration("the drift is corrected", func(c *admissionregistrationv1.MutatingWebhookConfiguration) string {
		if hook := c.Webhooks[0]; *hook.FailurePolicy != admissionregistrationv1.Ignore || len(hook.Rules) != 2 || len(hook.ObjectSelector.MatchExpressions) != 1 {
			return fmt.Sprintf("got configuration %+v", hook)
		}
		return ""
	})
	l.must(l.Delete(t.Context(), have))
	l.waitForConfiguration("the webhook configuration is recreated", func(*admissionregistrationv1.MutatingWebhookConfiguration) string { return "" })

	// A ring without resources has none.
	l.edit(func(s *v1alpha1.ClusterRingSpec) { s.Resources = nil })
	l.eventually("the webhook configuration is deleted", func() string {
		if err := l.Get(t.Context(), client.ObjectKeyFromObject(have), have); !apierrors.IsNotFound(err) {
			return fmt.Sprint(err)
		}
		return ""
	})
	l.waitForStatus("the ring has no resources", func(s *v1alpha1.ClusterRingStatus) string {
		if problem := hasCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonConfigured, "no resources")(s); problem != "" {
			return problem
		}
		return hasCondition(v1alpha1.ConditionBalanced, metav1.ConditionTrue, v1alpha1.ReasonBalanced, "no resources")(s)
	})
}

func TestReplacedCertificateAuthorityIsApplied(t *testing.T) {
	l := newFixture(t)
	l.start()
	l.waitForConfiguration("the webhook configuration is created", func(*admissionregistrationv1.MutatingWebhookConfiguration) string { return "" })
	both := append(l.authority(), l.authority()...)
	l.replaced.Store(&both)
	l.waitForConfiguration("the configuration trusts the new authority", func(c *admissionregistrationv1.MutatingWebhookConfiguration) string {
		if !bytes.Equal(c.Webhooks[0].ClientConfig.CABundle, both) {
			return fmt.Sprintf("got bundle %s", c.Webhooks[0].ClientConfig.CABundle)
		}
		return ""
	})
}

// A certificate authority that another component injects is kept.
func TestInjectedCertificateAuthorityIsKept(t *testing.T) {
	l := newFixture(t)
	l.hasForeignCA.Store(true)
	l.start()
	have := l.waitForConfiguration("the webhook configuration is created", func(c *admissionregistrationv1.MutatingWebhookConfiguration) string {
		if len(c.Webhooks[0].ClientConfig.CABundle) > 0 {
			return "the configuration has an authority"
		}
		return ""
	})
	have.Webhooks[0].ClientConfig.CABundle = l.authority()
	l.must(l.Update(t.Context(), have, client.FieldOwner("cainjector")))
	l.edit(func(s *v1alpha1.ClusterRingSpec) {
		s.Resources = s.Resources[:1]
		s.Resources[0].ControlledResources = nil
	})
	have = l.waitForConfiguration("the configuration is changed", func(c *admissionregistrationv1.MutatingWebhookConfiguration) string {
		if len(c.Webhooks[0].Rules) != 1 {
			return fmt.Sprintf("got rules %+v", c.Webhooks[0].Rules)
		}
		return ""
	})
	if len(have.Webhooks[0].ClientConfig.CABundle) == 0 {
		t.Error("injected authority was removed")
	}
	l.startShard("a")
	l.waitUntilBalanced(0)
	l.eventually("the webhook is called", func() string {
		if at := l.placement(l.createConfigMap(fmt.Sprint("c-", len(l.countByShard())))); at.Shard != "a" {
			return fmt.Sprintf("new object has the placement %+v", at)
		}
		return ""
	})
}

// The columns of kubectl get show correct values.
func TestClusterRingPrinterColumns(t *testing.T) {
	l := newFixture(t)
	l.createObjects(7)
	l.start()
	l.startShard("a")
	b := l.startShard("b")
	l.waitUntilBalanced(7)
	b.leave()
	l.waitForStatus("one shard remains", func(s *v1alpha1.ClusterRingStatus) string {
		if s.AvailableShards != 1 || s.Members[0].Assigned != 7 {
			return fmt.Sprintf("got shards %+v", s.Members)
		}
		return hasCondition(v1alpha1.ConditionBalanced, metav1.ConditionTrue, v1alpha1.ReasonBalanced)(s)
	})
	config := rest.CopyConfig(testplane.Config(t))
	config.GroupVersion, config.APIPath, config.NegotiatedSerializer = &schema.GroupVersion{Group: "breakwater.dev", Version: "v1alpha1"}, "/apis", scheme.Codecs
	c, err := rest.RESTClientFor(config)
	l.must(err)
	raw, err := c.Get().Resource("clusterrings").Name(l.ring.Name).SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	l.must(err)
	table := &metav1.Table{}
	l.must(json.Unmarshal(raw, table))
	var cells []string
	for i, column := range table.ColumnDefinitions {
		if column.Name != "Age" {
			cells = append(cells, fmt.Sprintf("%s=%v", column.Name, table.Rows[0].Cells[i]))
		}
	}
	want := []string{"Name=" + l.ring.Name, "Ready=True", "Available=1", "Shards=2", "Assigned=7", "Draining=0", "Unassigned=0", "Balanced=True"}
	if !slices.Equal(cells, want) {
		t.Errorf("got columns %q, want %q", cells, want)
	}
}

func TestUnchangedStateCausesNoWrites(t *testing.T) {
	l := newFixture(t)
	l.createObjects(3)
	s := l.start()
	l.startShard("a")
	now := l.waitUntilBalanced(3)
	hook := l.waitForConfiguration("the webhook configuration is created", func(*admissionregistrationv1.MutatingWebhookConfiguration) string { return "" })
	passes := s.metric(l, "breakwater_ring_passes_total")
	for range 5 { // the ring is reconciled every 300 ms
		l.eventually("some time passes", func() func() string {
			n := 0
			return func() string {
				if n++; n < 25 {
					return "not yet"
				}
				return ""
			}
		}())
	}
	again := &v1alpha1.ClusterRing{}
	l.must(l.Get(t.Context(), client.ObjectKeyFromObject(l.ring), again))
	// One more pass may be in progress, which counts all objects again.
	if counted := s.metric(l, "breakwater_ring_passes_total") > passes; counted {
		now.Status.LastCounted, now.ResourceVersion = again.Status.LastCounted, again.ResourceVersion
	}
	if again.ResourceVersion != now.ResourceVersion || !equality.Semantic.DeepEqual(again.Status, now.Status) {
		t.Errorf("ring was written: %+v, and now %+v", now.Status, again.Status)
	}
	if same := l.waitForConfiguration("the webhook configuration exists", func(*admissionregistrationv1.MutatingWebhookConfiguration) string { return "" }); same.ResourceVersion != hook.ResourceVersion {
		t.Error("webhook configuration was written")
	}
	if n := s.metric(l, "breakwater_ring_passes_total"); n > passes+1 {
		t.Errorf("got %v passes", n-passes)
	}
}

func TestDeletedRingLeavesNoState(t *testing.T) {
	l := newFixture(t)
	l.createObjects(3)
	s := l.start()
	l.startShard("a")
	l.waitUntilBalanced(3)
	l.must(l.Delete(t.Context(), l.ring))
	l.eventually("no metric has the ring", func() string {
		families, err := s.Gather()
		l.must(err)
		for _, family := range families {
			if strings.HasPrefix(family.GetName(), "breakwater_ring") {
				return family.GetName()
			}
		}
		return ""
	})
	// A new ring of the same name continues with the placements of the objects.
	another := l.ring.DeepCopy()
	another.ResourceVersion, another.UID = "", ""
	l.must(l.Create(t.Context(), another))
	l.waitUntilBalanced(3)
	l.waitForConfiguration("the webhook configuration is created", func(c *admissionregistrationv1.MutatingWebhookConfiguration) string {
		if owner := metav1.GetControllerOf(c); owner == nil || owner.UID != another.UID {
			return fmt.Sprintf("got owner %+v", owner)
		}
		return ""
	})
}
