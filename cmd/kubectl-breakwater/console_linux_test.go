package main

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// startConsole starts the console as a user with these permissions, and returns its link. It stops the console at the end of the test.
func startConsole(t *testing.T, rules ...rbacv1.PolicyRule) (link string) {
	t.Helper()
	path := writeContexts(t, "hub", map[string]*rest.Config{"hub": testplane.User(t, "console-user", rules)})
	ctx, cancel := context.WithCancel(t.Context())
	out := &terminalOutput{}
	reading, writing := io.Pipe()
	go out.read(reading)
	root := rootCommand(genericiooptions.IOStreams{In: strings.NewReader(""), Out: writing, ErrOut: writing})
	root.SetArgs([]string{"console", "--kubeconfig", path, "--as", "console-user"})
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("console ended with %v", err)
		}
	})
	testplane.Eventually(t, func() string {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("console ended with %v: %s", err, out)
		default:
		}
		link = regexp.MustCompile(`http://127\.0\.0\.1:\d+/local/\w+`).FindString(out.String())
		if link == "" {
			return "no link yet: " + out.String()
		}
		return ""
	})
	return link
}

func TestConsoleOfTheUser(t *testing.T) {
	h := newHub(t)
	h.protect("web", 5, 9, nil)
	link := startConsole(t, rbacv1.PolicyRule{
		APIGroups: []string{"breakwater.dev"}, Resources: []string{"cells", "podprotectors"}, Verbs: []string{"list", "watch"},
	})
	base, _, _ := strings.Cut(link, "/local/")
	jar, err := cookiejar.New(nil)
	h.must(err)
	signedIn, stranger := &http.Client{Jar: jar}, &http.Client{}
	get := func(c *http.Client, address string, change ...func(*http.Request)) (code int, body string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
		h.must(err)
		request.Header.Set("Accept", "text/html")
		for _, one := range change {
			one(request)
		}
		response, err := c.Do(request)
		h.must(err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		h.must(err)
		return response.StatusCode, string(text)
	}
	// The link is printed when the console has data.
	if code, body := get(signedIn, link); code != http.StatusOK || !strings.Contains(body, h.namespace) || !strings.Contains(body, "Signed in as console-user") {
		t.Errorf("the link leads to code %d, want 200 with namespace %s for console-user:\n%s", code, h.namespace, body)
	}
	token := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+testplane.Config(t).BearerToken+"x") }
	otherHost := func(r *http.Request) { r.Host = "attacker.example" }
	for claim, c := range map[string]struct {
		client *http.Client
		path   string
		change []func(*http.Request)
		code   int
		words  string
	}{
		"the session continues":                     {signedIn, "/protectors/" + h.namespace + "/web", nil, http.StatusOK, "web"},
		"no page without the link":                  {stranger, "/", nil, http.StatusUnauthorized, "Open the link"},
		"no data without the link":                  {stranger, "/api/fleet", nil, http.StatusUnauthorized, "Open the link"},
		"no page with another secret":               {stranger, "/local/AAAA", nil, http.StatusUnauthorized, "Open the link"},
		"no sign-in with a token":                   {stranger, "/", []func(*http.Request){token}, http.StatusUnauthorized, "Open the link"},
		"no form for tokens":                        {stranger, "/sign-in", nil, http.StatusUnauthorized, "Open the link"},
		"no page under another name of the machine": {signedIn, "/", []func(*http.Request){otherHost}, http.StatusMisdirectedRequest, "not the address"},
	} {
		if code, body := get(c.client, base+c.path, c.change...); code != c.code || !strings.Contains(body, c.words) {
			t.Errorf("%s: code %d, want %d with %q:\n%s", claim, code, c.code, c.words, body)
		}
	}
}

func TestConsoleNeedsPermissionToWatch(t *testing.T) {
	path := writeContexts(t, "hub", map[string]*rest.Config{"hub": testplane.User(t, "console-reader",
		[]rbacv1.PolicyRule{{APIGroups: []string{"breakwater.dev"}, Resources: []string{"podprotectors"}, Verbs: []string{"list", "watch"}}})})
	_, _, err := runPlugin(t, "", "console", "--kubeconfig", path, "--as", "console-reader")
	wantErrors(t, err, []string{"you may not list cells, watch cells of breakwater.dev in all namespaces"})
}
