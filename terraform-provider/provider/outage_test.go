package provider_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/pki"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/terraform-provider/provider"
)

// impatientSteps is steps with a provider whose clusters may be unreachable for a second only.
func impatientSteps(t *testing.T, all ...resource.TestStep) {
	t.Helper()
	resource.UnitTest(t, resource.TestCase{Steps: all, ProtoV6ProviderFactories: map[string]func() (tfprotov6.ProviderServer, error){
		"breakwater": func() (tfprotov6.ProviderServer, error) { return provider.ServerWithPatience(time.Second) },
	}})
}

// serve starts a server and returns a provider configuration for it. It counts requests.
func serve(t *testing.T, answer http.HandlerFunc) (configuration string, requests *atomic.Int32) {
	t.Helper()
	requests = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	return fmt.Sprintf("provider \"breakwater\" {\n  host = %q\n}\n", server.URL), requests
}

func answerWith(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// Each of the 50 resources may retry for 10 minutes, and Terraform applies 10 at a time.
func TestApplyEndsSoonIfClusterIsUnreachable(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		for claim, answer := range map[string]http.HandlerFunc{
			"never answers": func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // before, the server does not notice that the client has gone
				<-r.Context().Done()
			},
			"a proxy without it": answerWith(http.StatusBadGateway, "<html>Bad Gateway</html>"),
		} {
			t.Run(claim, func(t *testing.T) {
				configuration, requests := serve(t, answer)
				began := time.Now()
				impatientSteps(t, resource.TestStep{Config: configuration + manyProtectors("shop", "1", 50),
					ExpectError: matchText(`(?s)(Error: The cluster is unreachable.+?has[\s│]+not[\s│]+answered[\s│]+for[\s│]+1s.+?){50}`)})
				if took := time.Since(began); requests.Load() > 150 || took > time.Minute {
					t.Errorf("apply of 50 resources ended after %d requests and %s, want at most 150 requests and a minute", requests.Load(), took)
				}
			})
		}
	})
}

// A drift check fails however the connection to the cluster of the state is broken.
func TestPlanNeedsTheClusterOfTheState(t *testing.T) {
	authority, err := pki.NewAuthority("other")
	if err != nil {
		t.Fatal(err)
	}
	forEachProgram(t, func(t *testing.T) {
		namespace, admin := testplane.Namespace(t), testplane.Config(t)
		user := testplane.AsServiceAccount(t, admin, namespace, "no-permissions", "")
		ca := fmt.Sprintf("\n  cluster_ca_certificate = %q", admin.CAData)
		working := fmt.Sprintf("kubeconfig = %q", testplane.KubeconfigOf(t, admin))
		page, _ := serve(t, answerWith(http.StatusOK, "<html>Sign in</html>"))
		missing, _ := serve(t, answerWith(http.StatusNotFound, "404 page not found"))
		const nowhere = "host = \"https://127.0.0.1:9\""
		by := func(fields string) string { return "provider \"breakwater\" {\n  " + fields + "\n}\n" }
		fails := func(configuration, want string) resource.TestStep {
			return resource.TestStep{Config: configuration + protectorIn(namespace, ""), ExpectError: matchWrapped(want)}
		}
		failsAtFirst := func(fields, want string) resource.TestStep {
			return resource.TestStep{Config: by(fields+"\n  require_cluster = true") + protectorIn(namespace, ""), PlanOnly: true, ExpectError: matchWrapped(want)}
		}
		succeeds := func(configuration string) resource.TestStep {
			return resource.TestStep{Config: configuration + protectorIn(namespace, ""), ConfigPlanChecks: nothingToDo}
		}
		silent := "https://127.0.0.1:9 has not answered for 1s"
		impatientSteps(t,
			failsAtFirst(nowhere, silent),
			failsAtFirst(`config_path = "/no/such/file"`, "file /no/such/file exists, but config_path names it"),
			resource.TestStep{Config: by(working) + protectorIn(namespace, "")},
			fails(by(nowhere), silent),
			fails(by(`config_path = "/no/such/file"`), "no file /no/such/file exists, but config_path names it"),
			fails(by(working+"\n  config_context = \"nope\""), `has no context "nope"`),
			fails("resource \"terraform_data\" \"cluster\" {\n  input = \"/file\"\n}\n"+by("config_path = terraform_data.cluster.output"), "are known only after the apply"),
			fails(by(fmt.Sprintf("host = %q\n  token = \"none\"", admin.Host)+ca), "The cluster does not accept the provider's credentials"),
			fails(by(fmt.Sprintf("host = %q\n  token = %q", user.Host, user.BearerToken)+ca), `cannot get resource "podprotectors"`),
			fails(by(fmt.Sprintf("host = %q\n  cluster_ca_certificate = %q", admin.Host, authority.PEM)), "The provider trusts no CA of the API server's certificate"),
			fails(strings.Replace(page, "http:", "https:", 1), "The server does not use TLS"),
			fails(by(fmt.Sprintf("host = %q", strings.Replace(admin.Host, "https:", "http:", 1))), "The server uses TLS: set host to an https URL"),
			fails(page, "not a Kubernetes API server"),
			fails(missing, "not a Kubernetes API server"),
			succeeds(by(nowhere+"\n  require_cluster = false")),
			succeeds(by("config_path = \"/no/such/file\"\n  require_cluster = false")),
			fails(by(fmt.Sprintf("host = %q\n  require_cluster = false\n  token = \"none\"", admin.Host)+ca), "The cluster does not accept the provider's credentials"),
			succeeds(by(working)),
		)
	})
}

// A webhook of the cluster that fails does not recover within the seconds of a retry.
func TestFailingWebhookIsNotRetried(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		proxy := newRecordingProxy(t)
		namespace := testplane.Namespace(t)
		webhooks := kubernetes.NewForConfigOrDie(testplane.Config(t)).AdmissionregistrationV1().ValidatingWebhookConfigurations()
		nowhere, none, name := "https://"+testplane.FreeAddress(t), admissionregistrationv1.SideEffectClassNone, "failing-"+namespace
		_, err := webhooks.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: "failing.example.com", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
				ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: &nowhere},
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}},
				Rules: []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule: admissionregistrationv1.Rule{APIGroups: []string{"breakwater.dev"}, APIVersions: []string{"*"}, Resources: []string{"podprotectors"}}}},
			}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = webhooks.Delete(context.Background(), name, metav1.DeleteOptions{}) })
		testplane.Eventually(t, func() string {
			probe := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "probe"},
				Spec: v1alpha1.PodProtectorSpec{Selector: &v1alpha1.PodSelector{}, MinAvailable: v1alpha1.Pods(1)}}
			if err := testplane.Client(t).Create(t.Context(), probe, client.DryRunAll); err == nil {
				return "the API server does not call the webhook yet"
			}
			return ""
		})
		steps(t, resource.TestStep{Config: withConfig(t, proxy.Config) + protectorIn(namespace, ""), ExpectError: matchWrapped(`failed calling webhook "failing.example.com"`)})
		applied := slices.DeleteFunc(proxy.queries("/podprotectors/web"), func(q url.Values) bool { return !q.Has("fieldManager") || q.Has("dryRun") })
		if len(applied) != 1 {
			t.Errorf("the object was applied %d times, want once: %v", len(applied), applied)
		}
	})
}
