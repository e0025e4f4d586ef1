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

// do is what a hook of a page does: its name is what the page says that is done.
type do map[string]func(l *lab)

// fault is what a runbook is about.
type fault struct {
	// page is the name of the runbook.
	page string
	// breaks is the hook that breaks it; after that the alert of the page is active.
	breaks string
	do     do
	// lasts tells that the alert goes on for minutes after the fault, since it is about a rate.
	lasts bool
}

// run breaks something, does what the page says, and sees that the alert is over.
func (f fault) run(t *testing.T, l *lab) {
	t.Helper()
	if !f.wanted() {
		return
	}
	well := t.Run(f.page, func(t *testing.T) {
		inner := *l
		inner.TB = t
		f.play(t, &inner)
	})
	if !well {
		t.FailNow() // what is broken still is in the way of the others
	}
}

func (f fault) play(t *testing.T, l *lab) {
	t.Helper()
	page, err := doctest.Read(root, "docs/runbooks/"+f.page+".md")
	if err != nil {
		t.Fatal(err)
	}
	alert := alertOf(f.page)
	alerts.await(t, alert, false)
	hooks := map[string]func(*testing.T, *doctest.Session){}
	for name, does := range f.do {
		hooks[name] = func(t *testing.T, _ *doctest.Session) {
			does(l)
			if name == f.breaks {
				alerts.await(t, alert, true)
			}
		}
	}
	s := setting(t, f.page)
	s.Hooks = hooks
	page.Run(t, s)
	if !f.lasts {
		alerts.await(t, alert, false)
	}
}

// alertOf is the alert of a page: that of core-down is BreakwaterCoreDown.
func alertOf(page string) string {
	return "Breakwater" + regexp.MustCompile(`(^|-)[a-z]`).ReplaceAllStringFunc(page, func(s string) string { return strings.ToUpper(strings.TrimPrefix(s, "-")) })
}

// setting is what a runbook begins with: the cluster of a worker as the current context, and the core known by a variable.
func setting(t *testing.T, page string) doctest.Setting {
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
		file = tilted.through(file, "core")
	}
	file.CurrentContext = "worker-1"
	kubeconfig := filepath.Join(folder, ".kubeconfig")
	if err := clientcmd.WriteToFile(*file, kubeconfig); err != nil {
		t.Fatal(err)
	}
	programs := []string{filepath.Dir(plugin.path), filepath.Dir(suite.Program()), os.Getenv(local.BinariesVariable), os.Getenv("PATH")}
	return doctest.Setting{
		Environments: []doctest.Environment{doctest.Runbook}, Folder: folder, Prelude: string(prelude), Patience: time.Minute,
		Variables: []string{
			"PATH=" + strings.Join(programs, string(os.PathListSeparator)), "KUBECONFIG=" + kubeconfig, "HOME=" + folder, "BREAKWATER_CORE_CONTEXT=core",
			"WEBHOOK=" + webhookURL, "AUTHORITY=" + filepath.Join(suite.Dir(), "webhook", "ca.crt"),
		},
	}
}

// A page that shows what its commands say is broken by one of the faults.
func TestEachRunbookIsRun(t *testing.T) {
	run := map[string]bool{"removals-owed": true} // within core-down
	for _, f := range slices.Concat(first(), second(), controllers(), stored(), everywhere()) {
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
			t.Errorf("%s has commands that are run: %v, and a fault: %v", name, page.Runs(doctest.Runbook), run[strings.TrimSuffix(name, ".md")])
		}
	}
}
