package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// version is one that etcd does not have.
const version = "v3.99.0"

// checkout is a tree with the real hack/tools/install and a module etcd, whose sources are tiny, so that the fallback builds in a second.
type checkout struct{ folder, cache string }

func newCheckout(t *testing.T) checkout {
	t.Helper()
	c := checkout{folder: t.TempDir(), cache: t.TempDir()}
	c.write(t, "go.mod", "module example.test\ngo 1.26.0\n")
	c.write(t, "hack/tools/etcd/go.mod", "module tools\ngo 1.26.0\nrequire (\n\tgo.etcd.io/etcd/etcdutl/v3 "+version+"\n\tgo.etcd.io/etcd/server/v3 "+version+
		"\n)\nreplace go.etcd.io/etcd/server/v3 => ./server\nreplace go.etcd.io/etcd/etcdutl/v3 => ./etcdutl\n")
	c.write(t, "hack/tools/etcd/go.sum", "")
	c.write(t, "hack/tools/etcd/tools.go", "//go:build tools\n\npackage tools\n\nimport (\n\t_ \"go.etcd.io/etcd/etcdutl/v3\"\n\t_ \"go.etcd.io/etcd/server/v3\"\n)\n")
	for _, program := range []string{"etcdutl", "server"} {
		c.write(t, "hack/tools/etcd/"+program+"/go.mod", "module go.etcd.io/etcd/"+program+"/v3\ngo 1.26.0\n")
		c.write(t, "hack/tools/etcd/"+program+"/main.go", "package main\n\nfunc main() { println(\"built\") }\n")
	}
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	c.copy(t, "../tools/install", "hack/tools/install")
	for _, source := range sources {
		if !strings.HasSuffix(source, "_test.go") {
			c.copy(t, source, "hack/fetch/"+source)
		}
	}
	return c
}

func (c checkout) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(c.folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o700); err != nil { //nolint:gosec // one is a script
		t.Fatal(err)
	}
}

func (c checkout) copy(t *testing.T, from, to string) {
	t.Helper()
	raw, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	c.write(t, to, string(raw))
}

// pin pins the sum of a file.
func (c checkout) pin(t *testing.T, url string, content []byte) {
	t.Helper()
	sum := sha256.Sum256(content)
	c.write(t, "hack/tools/sums", "# sums\n"+hex.EncodeToString(sum[:])+"  "+url+"\n")
}

// install runs hack/tools/install with a release site. It returns what the installed etcd prints, and the output of the script.
func (c checkout) install(t *testing.T, site string) (etcd, output string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(c.folder, "hack/tools/install"), "etcd")
	var log bytes.Buffer
	command.Env, command.Stderr = append(os.Environ(), "BREAKWATER_CACHE="+c.cache, mirrorVariable+"="+site), &log
	entry, err := command.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	printed, err := exec.CommandContext(t.Context(), filepath.Join(strings.TrimSpace(string(entry)), "etcd")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	left, err := os.ReadDir(strings.TrimSpace(string(entry)))
	if err != nil || len(left) != 2 {
		t.Errorf("the cache has %v (%v), want etcd and etcdutl", left, err)
	}
	return strings.TrimSpace(string(printed)), log.String()
}

// etcdRelease returns a platform's release: an archive with programs that are scripts.
func etcdRelease(t *testing.T, programs ...string) []byte {
	t.Helper()
	var archive bytes.Buffer
	plain := gzip.NewWriter(&archive)
	files := tar.NewWriter(plain)
	for _, program := range programs {
		content := "#!/bin/sh\necho released\n"
		err := files.WriteHeader(&tar.Header{Name: "etcd-" + version + "/" + program, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(content))})
		if err == nil {
			_, err = files.Write([]byte(content))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	if err := plain.Close(); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

// site serves files, as a release site or a mirror of one does, from its folder.
func site(t *testing.T, files map[string][]byte) *httptest.Server {
	t.Helper()
	folder := t.TempDir()
	for url, content := range files {
		path := filepath.Join(folder, strings.TrimPrefix(url, "https://"))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(http.FileServer(http.Dir(folder)))
	t.Cleanup(server.Close)
	return server
}

func etcdURL(t *testing.T) string {
	t.Helper()
	platform, err := exec.CommandContext(t.Context(), "go", "env", "GOOS", "GOARCH").Output()
	if err != nil {
		t.Fatal(err)
	}
	return expand(releases()[0].url, version, strings.Join(strings.Fields(string(platform)), "/"))
}

func TestInstallUsesReleasesWithThePinnedSum(t *testing.T) {
	released, url := etcdRelease(t, "README.md", "etcd", "etcdctl", "etcdutl"), etcdURL(t)
	unused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	unused.Close()
	for name, c := range map[string]struct {
		pinned []byte
		served map[string][]byte
		site   string // instead of one that serves files
		etcd   string
		says   string
	}{
		"the pinned sum":         {pinned: released, served: map[string][]byte{url: released}, etcd: "released", says: "etcd-" + version},
		"another sum":            {pinned: []byte("another"), served: map[string][]byte{url: released}, etcd: "built", says: "discarded"},
		"no such file":           {pinned: released, etcd: "built", says: "404 Not Found"},
		"an archive without it":  {pinned: etcdRelease(t, "etcd"), served: map[string][]byte{url: etcdRelease(t, "etcd")}, etcd: "built", says: `the archive does not have ["etcdutl"]`},
		"no pinned sum":          {served: map[string][]byte{url: released}, etcd: "built", says: "pins no sum of https://github.com/etcd-io/etcd/"},
		"no network":             {pinned: released, site: "http://" + unused.Addr().String(), etcd: "built", says: "connection refused"},
		"downloads switched off": {pinned: released, site: "off", etcd: "built", says: mirrorVariable + " is off"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := newCheckout(t)
			if c.pinned == nil {
				tree.write(t, "hack/tools/sums", "# none\n")
			} else {
				tree.pin(t, url, c.pinned)
			}
			at := c.site
			if at == "" {
				at = site(t, c.served).URL
			}
			etcd, output := tree.install(t, at)
			if etcd != c.etcd || !strings.Contains(output, c.says) {
				t.Errorf("etcd is %s, want %s, and the output to contain %q:\n%s", etcd, c.etcd, c.says, output)
			}
			if built := strings.Contains(output, "if the Go build cache is empty"); built != (c.etcd == "built") {
				t.Errorf("the output estimates the build: %v\n%s", built, output)
			}
		})
	}
}

func TestUpdateSums(t *testing.T) {
	files := map[string][]byte{}
	tools := t.TempDir()
	pins := map[string]string{"kubernetes": "k8s.io/kubernetes v1.2.3", "etcd": "go.etcd.io/etcd/server/v3 v2.3.4", "kwok": "sigs.k8s.io/kwok v0.1.0"}
	for module, require := range pins {
		if err := os.Mkdir(filepath.Join(tools, module), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(tools, module, "go.mod"), []byte("module tools\n\nrequire "+require+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{}
	for _, r := range releases() {
		number := strings.Fields(pins[r.module])[1]
		for _, platform := range platforms {
			url := expand(r.url, number, platform)
			sum := sha256.Sum256([]byte(url))
			want[url] = hex.EncodeToString(sum[:])
			switch published := expand(r.sums, number, platform); {
			case published == "":
				files[url] = []byte(url)
			case strings.HasSuffix(published, "SHA256SUMS"):
				files[published] = append(files[published], want[url]+"  "+url[strings.LastIndex(url, "/")+1:]+"\n"...)
			default:
				files[published] = []byte(want[url])
			}
		}
	}
	client := newClient(site(t, files).URL)
	if err := updateSums(t.Context(), client, tools); err != nil {
		t.Fatal(err)
	}
	got, err := readSums(tools)
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d sums, want %d (%v)", len(got), len(want), err)
	}
	for url, sum := range want {
		if got[url] != sum {
			t.Errorf("%s: %s, want %s", url, got[url], sum)
		}
	}
}

func TestReleasesNameWhatTheModulesBuild(t *testing.T) {
	for _, r := range releases() {
		if _, err := r.version("../tools"); err != nil {
			t.Error(err)
		}
	}
}

// TestSilentSite covers sites that accept connections, and then send nothing, or not all.
func TestSilentSite(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/half" {
			w.Header().Set("Content-Length", "2")
			_, _ = w.Write([]byte("1"))
			_ = http.NewResponseController(w).Flush()
		}
		<-release
	}))
	defer server.Close()
	defer close(release)
	c := newClient(server.URL)
	c.stall = 50 * time.Millisecond
	c.http.Transport.(*http.Transport).ResponseHeaderTimeout = 50 * time.Millisecond
	for url, want := range map[string]string{"https://nothing": "timeout awaiting response headers", "https://half": "no data for 50ms"} {
		if _, err := c.download(context.Background(), url, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", url, err, want)
		}
	}
}
