package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
	"github.com/breakwater-k8s/breakwater/e2e/harness/registry"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/hack/release/chart"
	"github.com/breakwater-k8s/breakwater/hack/release/check"
	"github.com/breakwater-k8s/breakwater/hack/release/sums"
)

func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil { // make release runs in the root of the repository
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testplane.Main(m)
}

// tool returns the path of a program that make built.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := local.BuiltProgram(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRelease builds a release of the tree for this platform, breaks it, and installs it from a registry.
func TestRelease(t *testing.T) {
	writeSigningKey(t)
	cosign := createCosignKey(t)
	o := options{
		cosign: cosign,
		out:    filepath.Join(t.TempDir(), "release"), image: "ghcr.io/breakwater-k8s/breakwater", platforms: "linux/" + runtime.GOARCH,
		helm: tool(t, "helm"), krew: tool(t, "validate-krew-manifest"),
	}
	if err := run(t.Context(), t.Output(), o); err != nil {
		t.Fatal(err)
	}
	version, err := newRelease(t.Context(), io.Discard, o)
	if err != nil {
		t.Fatal(err)
	}
	o.check = true
	t.Run("the check finds each file that is missing or changed", func(t *testing.T) { expectCheckedFiles(t, o) })
	t.Run("Terraform installs the provider", func(t *testing.T) { installProvider(t, o.out, version.version) })
	t.Run("image and charts are installed from a registry", func(t *testing.T) { installFromRegistry(t, o, version.version) })
}

// writeSigningKey creates a key and names it in the environment.
func writeSigningKey(t *testing.T) {
	t.Helper()
	key, err := openpgp.NewEntity("Test", "", "test@example.com", &packet.Config{Algorithm: packet.PubKeyAlgoRSA, RSABits: 2048})
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "key.asc"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	armored, err := armor.Encode(file, openpgp.PrivateKeyType, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := key.SerializePrivate(armored, nil); err != nil {
		t.Fatal(err)
	}
	if err := armored.Close(); err != nil {
		t.Fatal(err)
	}
	t.Setenv(keyFileVariable, file.Name())
}

// expectCheckedFiles removes each file of a release, with its checksum, and changes one, and expects the check to fail.
func expectCheckedFiles(t *testing.T, o options) {
	r, err := newRelease(t.Context(), io.Discard, o)
	if err != nil {
		t.Fatal(err)
	}
	names, err := sums.Files(o.out)
	if err != nil || len(names) < 15 {
		t.Fatalf("%d files, error %v, want at least 15", len(names), err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, sums.File) })
	all, err := os.ReadFile(r.path(sums.File))
	if err != nil {
		t.Fatal(err)
	}
	write := func(file string, content []byte) {
		t.Helper()
		if err := os.WriteFile(r.path(file), content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := sign(r.path(sums.File), r.key); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(file, what string) {
		t.Helper()
		if err := run(t.Context(), io.Discard, o); err == nil || !strings.Contains(err.Error(), filepath.Base(file)) {
			t.Errorf("the check of a release with %s %s: error %v, want one that names it", what, file, err)
		}
	}
	for _, file := range names {
		content, err := os.ReadFile(r.path(file))
		if err != nil {
			t.Fatal(err)
		}
		if file == "image.tar" { // as the checksums of all files are compared
			write(file, content[:len(content)/2])
			expect(file, "half of")
		}
		if err := os.Remove(r.path(file)); err != nil {
			t.Fatal(err)
		}
		if err := sums.Write(o.out, sums.File, slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == file })); err != nil {
			t.Fatal(err)
		}
		if err := sign(r.path(sums.File), r.key); err != nil {
			t.Fatal(err)
		}
		expect(file, "no")
		write(file, content)
		write(sums.File, all)
	}
	write("plugin/extra", nil)
	expect("extra", "the unknown file")
	if err := os.Remove(r.path("plugin", "extra")); err != nil {
		t.Fatal(err)
	}
	signatures := []string{sums.File, sums.File + ".sig"}
	if r.signsWithCosign() {
		signatures = append(signatures, check.CosignBundle)
	}
	for _, file := range signatures {
		content, err := os.ReadFile(r.path(file))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(r.path(file)); err != nil {
			t.Fatal(err)
		}
		expect(file, "no")
		if err := os.WriteFile(r.path(file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(t.Context(), io.Discard, o); err != nil {
		t.Errorf("the check of the complete release: %v", err)
	}
}

// installProvider lets Terraform install the zip from a mirror, which it does as from a registry.
func installProvider(t *testing.T, release, version string) {
	terraform := tool(t, "terraform")
	folder := t.TempDir()
	mirror := filepath.Join(folder, "mirror", "registry.terraform.io", "breakwater-k8s", "breakwater")
	zips, err := filepath.Glob(filepath.Join(release, "terraform", "*.zip"))
	if err != nil || len(zips) != 1 {
		t.Fatalf("zips %q, error %v, want one", zips, err)
	}
	content, err := os.ReadFile(zips[0])
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{
		filepath.Join(mirror, filepath.Base(zips[0])): string(content),
		filepath.Join(folder, "terraform.rc"):         fmt.Sprintf("provider_installation {\n  filesystem_mirror { path = %q }\n}\n", filepath.Join(folder, "mirror")),
		filepath.Join(folder, "work", "main.tf"):      "terraform {\n  required_providers {\n    breakwater = { source = \"breakwater-k8s/breakwater\", version = \"" + version + "\" }\n  }\n}\n",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, arguments := range [][]string{{"init", "-no-color"}, {"providers", "schema", "-json"}} {
		command := exec.CommandContext(t.Context(), terraform, arguments...)
		command.Dir, command.Env = filepath.Join(folder, "work"), append(os.Environ(), "TF_CLI_CONFIG_FILE="+filepath.Join(folder, "terraform.rc"))
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("terraform %s: %v\n%s", arguments[0], err, out)
		}
		if arguments[0] == "init" && !strings.Contains(string(out), "Installed breakwater-k8s/breakwater v"+version) {
			t.Errorf("terraform init:\n%s\nwant it to install version %s", out, version)
		}
		if arguments[0] == "providers" && !strings.Contains(string(out), "breakwater_pod_protector") {
			t.Errorf("the schema lacks breakwater_pod_protector:\n%.500s", out)
		}
	}
}

// installFromRegistry pushes a release to a real registry, pulls the image, and installs the charts with Helm from there.
func installFromRegistry(t *testing.T, o options, version string) {
	o.push = registry.Start(t, "127.0.0.1") + "/mirror"
	var pushed strings.Builder
	if err := run(t.Context(), &pushed, o); err != nil {
		t.Fatal(err)
	}
	expectImage(t, pushed.String(), o.push+"/breakwater:"+version)
	verifyWithCosign(t, o, pushed.String())
	c := testplane.Client(t)
	home := t.TempDir()
	kubeconfig := testplane.Kubeconfig(t)
	install := func(chart string, arguments ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), o.helm, append([]string{
			"install", chart, "oci://" + o.push + "/charts/" + chart, "--version", version, "--plain-http", "--kubeconfig", kubeconfig,
			"--namespace", "breakwater-system", "--create-namespace",
		}, arguments...)...)
		command.Env = append(os.Environ(), "HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_CACHE_HOME="+home, "HELM_DATA_HOME="+home)
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("helm install %s: %v\n%s", chart, err, out)
		}
	}
	install("breakwater-crds", "--take-ownership") // the API server of the test has the CRDs already
	install("breakwater", "--set", "cells[0].name=local", "--set", "tls.mode=self-signed")
	var deployments appsv1.DeploymentList
	if err := c.List(t.Context(), &deployments, client.InNamespace("breakwater-system")); err != nil || len(deployments.Items) == 0 {
		t.Fatalf("%d Deployments, error %v", len(deployments.Items), err)
	}
	for _, d := range deployments.Items {
		if got, want := d.Spec.Template.Spec.Containers[0].Image, "ghcr.io/breakwater-k8s/breakwater:"+version; got != want {
			t.Errorf("Deployment %s has the image %s, want %s", d.Name, got, want)
		}
	}
}

// createCosignKey creates a key of cosign and returns the path of the program. It returns an empty path if cosign is not built, which takes ten
// minutes.
func createCosignKey(t *testing.T) string {
	program, err := local.BuiltProgram("cosign")
	if err != nil {
		t.Logf("The test does not sign with cosign, see hack/tools/cosign: %v", err)
		return ""
	}
	t.Setenv("COSIGN_PASSWORD", "test")
	key := filepath.Join(t.TempDir(), "cosign")
	if out, err := exec.CommandContext(t.Context(), program, "generate-key-pair", "--output-key-prefix", key).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv(cosignKeyVariable, key+".key")
	return program
}

// verifyWithCosign verifies the signatures of the checksums and of all that was pushed.
func verifyWithCosign(t *testing.T, o options, pushed string) {
	if o.cosign == "" {
		return
	}
	key := strings.TrimSuffix(os.Getenv(cosignKeyVariable), ".key") + ".pub"
	checks := [][]string{{"verify-blob", "--bundle", filepath.Join(o.out, check.CosignBundle), filepath.Join(o.out, sums.File)}}
	for line := range strings.Lines(pushed) {
		if reference, ok := strings.CutPrefix(strings.TrimSpace(line), "pushed "); ok {
			checks = append(checks, []string{"verify", reference})
		}
	}
	if len(checks) != 4 {
		t.Errorf("%d things to verify, want the checksums, the image and two charts:\n%s", len(checks), pushed)
	}
	for _, c := range checks {
		arguments := append([]string{c[0], "--key", key, "--insecure-ignore-tlog"}, c[1:]...)
		if out, err := exec.CommandContext(t.Context(), o.cosign, arguments...).CombinedOutput(); err != nil {
			t.Errorf("cosign %v: %v\n%s", c, err, out)
		}
	}
}

// expectImage pulls the image by the digest that was reported, and validates all layers.
func expectImage(t *testing.T, pushed, want string) {
	t.Helper()
	lines := strings.Split(pushed, "\n")
	at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "pushed "+want+"@") })
	if at < 0 {
		t.Fatalf("the image was not pushed as %s:\n%s", want, pushed)
	}
	tagged, digest, _ := strings.Cut(strings.TrimPrefix(lines[at], "pushed "), "@")
	reference, err := name.NewDigest(tagged[:strings.LastIndex(tagged, ":")] + "@" + digest)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(reference)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	images, err := index.IndexManifest()
	if err != nil || len(images.Manifests) != 1 || images.Manifests[0].Platform.Equals(v1.Platform{}) {
		t.Errorf("the index in the registry is %+v, error %v", images, err)
	}
}

// The charts have the version, and pages that install a version name that one.
func TestPagesInstallThisVersion(t *testing.T) {
	version, err := chart.Version("charts")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range []string{"README.md", "docs/how-to/install.md", "docs/how-to/upgrade.md", "docs/contributing/releasing.md"} {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, named := range regexp.MustCompile(`(?:--version |version +=+ "|gh release create v)(\d+\.\d+\.\d+)`).FindAllStringSubmatch(string(raw), -1) {
			if found++; named[1] != version {
				t.Errorf("%s: %q, want version %s, as in charts/breakwater/Chart.yaml", page, named[0], version)
			}
		}
	}
	if found < 7 {
		t.Errorf("found %d versions in pages, want at least 7", found)
	}
}

func TestNotes(t *testing.T) {
	const changelog = "# Changelog\n\n## Unreleased\n\n- new\n\n## 0.1.0 - 2026-11-26\n\n- first\n\n## 0.0.1\n\n"
	for _, c := range []struct {
		version string
		tagged  bool
		want    string
	}{
		{"0.1.0", true, "- first\n"}, {"0.2.0", false, "- new\n"}, {"0.2.0", true, ""}, {"0.0.1", true, ""}, {"0.1", true, ""},
	} {
		got, err := notesOf(changelog, c.version, c.tagged)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("notes of %s, tagged %v: %q, error %v, want %q", c.version, c.tagged, got, err, c.want)
		}
	}
}

func TestVersions(t *testing.T) {
	for described, want := range map[string]string{
		"v1.2.3": "1.2.3", "1.2.3-rc.1": "1.2.3-rc.1", "78bd341": "0.0.0-78bd341", "v1.2.3-4-gabc-dirty": "1.2.3-4-gabc-dirty", "a_b": "0.0.0-a-b",
	} {
		if got := semanticVersion(described); got != want {
			t.Errorf("%q is %s, want %s", described, got, want)
		}
	}
}
