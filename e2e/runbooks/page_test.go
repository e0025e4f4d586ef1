package runbooks_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/breakwater-k8s/breakwater/e2e/harness/doctest"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

const root = "../.."

// hookMap maps the hooks of a page to functions. The page names the hook by what it does.
type hookMap map[string]func(l *fixture)

// fault is the fault that a runbook describes.
type fault struct {
	// page is the name of the runbook.
	page string
	// breakHook is the hook that causes the fault. Afterwards the alert of the page is active.
	breakHook string
	hooks     hookMap
	// staysActive reports whether the alert stays active for minutes after the fault, because it is based on a rate.
	staysActive bool
}

// runRunbook causes the fault, follows the page, and checks that the alert is not active afterwards.
func (f fault) runRunbook(t *testing.T, l *fixture) {
	t.Helper()
	if !f.isSelected() {
		return
	}
	well := t.Run(f.page, func(t *testing.T) {
		inner := *l
		inner.TB = t
		alerts.waitForAlert(t, alertOf(f.page), false)
		f.breakAndFix(t, &inner)
	})
	if !well {
		t.FailNow() // a remaining fault would affect the other runbooks
	}
}

// breakAndFix causes the fault and follows the page. The alert may be active before.
func (f fault) breakAndFix(t *testing.T, l *fixture) {
	t.Helper()
	page, err := doctest.Read(root, "docs/runbooks/"+f.page+".md")
	if err != nil {
		t.Fatal(err)
	}
	alert := alertOf(f.page)
	hooks := map[string]func(*testing.T, *doctest.Session){}
	for name, does := range f.hooks {
		hooks[name] = func(t *testing.T, _ *doctest.Session) {
			does(l)
			if name == f.breakHook {
				alerts.waitForAlert(t, alert, true)
			}
		}
	}
	s := newSetting(t, f.page)
	s.Hooks = hooks
	page.Run(t, s)
	if !f.staysActive {
		alerts.waitForAlert(t, alert, false)
	}
}

// alertOf returns the name of the alert of a page. For example, core-down has BreakwaterCoreDown.
func alertOf(page string) string {
	return "Breakwater" + regexp.MustCompile(`(^|-)[a-z]`).ReplaceAllStringFunc(page, func(s string) string { return strings.ToUpper(strings.TrimPrefix(s, "-")) })
}

// newSetting returns the environment of a runbook: the current context is a worker, and a variable names the core.
func newSetting(t *testing.T, page string) doctest.Options {
	t.Helper()
	prelude, err := os.ReadFile("../operate/testdata/pages.sh")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	file, err := clientcmd.LoadFromFile(suite.Federation().(*local.Federation).Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if page == "clock-skew" {
		file = coreProxy.addContext(file, "core")
	}
	file.CurrentContext = "worker-1"
	kubeconfig := filepath.Join(folder, ".kubeconfig")
	if err := clientcmd.WriteToFile(*file, kubeconfig); err != nil {
		t.Fatal(err)
	}
	programs := []string{filepath.Dir(plugin.path), filepath.Dir(suite.Program()), os.Getenv(local.BinariesVariable), os.Getenv("PATH")}
	return doctest.Options{
		Environments: []doctest.Environment{doctest.Runbook}, Folder: folder, Prelude: string(prelude), Timeout: time.Minute,
		Variables: []string{
			"PATH=" + strings.Join(programs, string(os.PathListSeparator)), "KUBECONFIG=" + kubeconfig, "HOME=" + folder, "BREAKWATER_CORE_CONTEXT=core",
			"WEBHOOK=" + webhookURL, "AUTHORITY=" + filepath.Join(suite.Dir(), "webhook", "ca.crt"),
		},
	}
}

// TestEachRunbookHasFault checks that each page with expected output has a fault that tests it.
func TestEachRunbookHasFault(t *testing.T) {
	run := map[string]bool{"pending-charges": true} // within core-down
	for _, f := range slices.Concat(worker1Faults(), worker2Faults(), controllerFaults(), storedObjectFaults(), commonFaults()) {
		run[f.page] = true
	}
	paths, err := filepath.Glob(root + "/docs/runbooks/*.md")
	if err != nil || len(paths) < len(run) {
		t.Fatalf("%q: %v", paths, err)
	}
	for _, path := range paths {
		name := filepath.Base(path)
		page, err := doctest.Read(root, "docs/runbooks/"+name)
		if err != nil {
			t.Fatal(err)
		}
		if page.Runs(doctest.Runbook) != run[strings.TrimSuffix(name, ".md")] {
			t.Errorf("%s has commands: %v, and a fault: %v; want both or neither", name, page.Runs(doctest.Runbook), run[strings.TrimSuffix(name, ".md")])
		}
	}
}
