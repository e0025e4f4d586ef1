package nodeguard

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
)

func TestReadMachine(t *testing.T) {
	for claim, tc := range map[string]struct {
		files map[string]string
		want  podhold.Machine
	}{
		"firmware and system":      {map[string]string{"sys/class/dmi/id/product_uuid": "4C4C4544-0000\n", "etc/machine-id": "b0\n"}, podhold.Machine{System: "4c4c4544-0000", OS: "b0"}},
		"a device tree":            {map[string]string{"proc/device-tree/vm,uuid": "4c4c\x00"}, podhold.Machine{System: "4c4c"}},
		"an empty ID of an image":  {map[string]string{"etc/machine-id": ""}, podhold.Machine{}},
		"a machine that is silent": {nil, podhold.Machine{}},
	} {
		t.Run(claim, func(t *testing.T) {
			root := t.TempDir()
			for name, content := range tc.files {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := ReadMachine(root); got != tc.want {
				t.Errorf("ReadMachine() = %+v, want %+v", got, tc.want)
			}
		})
	}
}
