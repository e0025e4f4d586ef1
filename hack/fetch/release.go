package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// platforms are those for which control planes are released. On others they are built.
var platforms = []string{"linux/amd64", "linux/arm64"} //nolint:gochecknoglobals // a constant

// release is a file of a release.
type release struct {
	// module is the folder below hack/tools, and requires the path of the Go module in its go.mod whose version is released.
	module, requires string
	// url of the file. {version}, {os} and {arch} are replaced.
	url string
	// sums is the URL of the sums that the project publishes, as sha256sum writes them, or of one sum alone. Empty if it publishes none.
	sums string
	// programs are those to take from the archive. The file is a program if there is only one.
	programs []string
}

const (
	kubernetes = "https://dl.k8s.io/release/{version}/bin/{os}/{arch}/"
	etcd       = "https://github.com/etcd-io/etcd/releases/download/{version}/"
	kwok       = "https://github.com/kubernetes-sigs/kwok/releases/download/{version}/"
)

// releases returns the files of all modules that are not built if they can be downloaded.
func releases() []release {
	all := []release{
		{
			module: "etcd", requires: "go.etcd.io/etcd/server/v3", url: etcd + "etcd-{version}-{os}-{arch}.tar.gz", sums: etcd + "SHA256SUMS",
			programs: []string{"etcd", "etcdutl"},
		},
		{module: "kwok", requires: "sigs.k8s.io/kwok", url: kwok + "kwok-{os}-{arch}", programs: []string{"kwok"}},
	}
	for _, program := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"} {
		all = append(all, release{
			module: "kubernetes", requires: "k8s.io/kubernetes", url: kubernetes + program, sums: kubernetes + program + ".sha256", programs: []string{program},
		})
	}
	return all
}

// version returns the version that the go.mod of the module requires.
func (r release) version(tools string) (string, error) {
	path := filepath.Join(tools, r.module, "go.mod")
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile(`(?m)^(?:require)?\s*` + regexp.QuoteMeta(r.requires) + ` (v\S+)`).FindSubmatch(raw)
	if found == nil {
		return "", fmt.Errorf("%s does not require %s", path, r.requires)
	}
	return string(found[1]), nil
}

// expand fills in a URL for a version and a platform.
func expand(url, version, platform string) string {
	system, arch, _ := strings.Cut(platform, "/")
	return strings.NewReplacer("{version}", version, "{os}", system, "{arch}", arch).Replace(url)
}
