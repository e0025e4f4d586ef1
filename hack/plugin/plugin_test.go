package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// These are the rules that krew documents for plugin manifests and plugin names.
func TestManifestMeetsTheRulesOfKrew(t *testing.T) {
	var built []packed
	for _, p := range platforms() {
		built = append(built, packedAs(p, "v1.2.3", []byte(p.os+p.arch)))
	}
	text, err := yaml.Marshal(manifestOf("v1.2.3", "https://example.com/v1.2.3/", built))
	if err != nil {
		t.Fatal(err)
	}
	var m manifest
	if err := yaml.UnmarshalStrict(text, &m); err != nil {
		t.Fatal(err)
	}
	if m.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || m.Kind != "Plugin" || !regexp.MustCompile(`^[\w-]+$`).MatchString(m.Metadata.Name) {
		t.Errorf("%+v", m)
	}
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`).MatchString(m.Spec.Version) {
		t.Errorf("version %q", m.Spec.Version)
	}
	if short := m.Spec.ShortDescription; short == "" || len(short) > 50 || strings.HasSuffix(short, ".") || m.Spec.Homepage == "" {
		t.Errorf("short description %q has %d characters", short, len(short))
	}
	for line := range strings.SplitSeq(m.Spec.Description+"\n"+m.Spec.Caveats, "\n") {
		if len(line) > 90 {
			t.Errorf("line has %d characters: %s", len(line), line)
		}
	}
	var seen []string
	for _, p := range m.Spec.Platforms {
		at := p.Selector.MatchLabels["os"] + "/" + p.Selector.MatchLabels["arch"]
		if slices.Contains(seen, at) || len(p.Selector.MatchLabels) != 2 {
			t.Errorf("platform %s occurs twice", at)
		}
		seen = append(seen, at)
		address, err := url.Parse(p.URI)
		if err != nil || address.Scheme != "https" || !strings.HasSuffix(p.URI, ".tar.gz") && !strings.HasSuffix(p.URI, ".zip") || strings.Contains(address.Path, "//") {
			t.Errorf("%s: uri %q", at, p.URI)
		}
		if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(p.SHA256) {
			t.Errorf("%s: sha256 %q", at, p.SHA256)
		}
		if !slices.ContainsFunc(p.Files, func(f krewFile) bool { return f.From == p.Bin && f.To == "." }) {
			t.Errorf("%s: %s is not among %v", at, p.Bin, p.Files)
		}
	}
	if len(seen) != 6 {
		t.Errorf("%v, want linux, darwin and windows on amd64 and arm64", seen)
	}
}

func TestVersions(t *testing.T) {
	for described, want := range map[string]string{
		"v1.2.3": "v1.2.3", "1.2.3-rc.1": "v1.2.3-rc.1", "": "v0.0.0-devel", "78bd341": "v0.0.0-78bd341", "v1.2.3-4-gabc-dirty": "v1.2.3-4-gabc-dirty", "a_b": "v0.0.0-a-b",
	} {
		if got := semanticVersion(described); got != want {
			t.Errorf("%q is %s, want %s", described, got, want)
		}
	}
}

func TestArchivesAreCompleteAndReproducible(t *testing.T) {
	files := []file{{"kubectl-breakwater", 0o755, []byte("program")}, {"LICENSE", 0o644, []byte("license")}}
	for _, p := range []platform{{"linux", "amd64"}, {"windows", "amd64"}} {
		first, err := pack(p, files)
		if err != nil {
			t.Fatal(err)
		}
		again, err := pack(p, files)
		if err != nil || !bytes.Equal(first, again) {
			t.Errorf("%s: two archives of the same files differ: %v", p.os, err)
		}
		got := unpacked(t, p, first)
		if got["kubectl-breakwater"] != "program" || got["LICENSE"] != "license" || len(got) != 2 {
			t.Errorf("%s: %v", p.os, got)
		}
	}
}

func unpacked(t *testing.T, p platform, archive []byte) map[string]string {
	t.Helper()
	got := map[string]string{}
	read := func(name string, mode int64, from io.Reader) {
		content, err := io.ReadAll(from)
		if err != nil {
			t.Fatal(err)
		}
		if name != "LICENSE" && mode&0o111 == 0 {
			t.Errorf("%s is not executable: mode %o", name, mode)
		}
		got[name] = string(content)
	}
	if p.os == "windows" {
		r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range r.File {
			from, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			read(f.Name, int64(f.Mode()), from)
		}
		return got
	}
	decompressed, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(decompressed)
	for {
		header, err := r.Next()
		if err == io.EOF {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		read(header.Name, header.Mode, r)
	}
}
