package archive

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestArchivesAreCompleteAndReproducible(t *testing.T) {
	files := []File{{"kubectl-breakwater", 0o755, []byte("program")}, {"LICENSE", 0o644, []byte("license")}}
	at := time.Unix(1_800_000_000, 0)
	for name, pack := range map[string]func(time.Time, ...File) ([]byte, error){"a.tar.gz": TarGzip, "a.zip": Zip} {
		first, err := pack(at, files...)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := pack(at, files...); err != nil || !bytes.Equal(first, again) {
			t.Errorf("%s: two archives of the same files differ: %v", name, err)
		}
		if later, err := pack(at.Add(time.Minute), files...); err != nil || bytes.Equal(first, later) {
			t.Errorf("%s: archives of two commits are equal, want them to contain the commit times: %v", name, err)
		}
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, first, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(files, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
