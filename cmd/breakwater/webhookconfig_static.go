package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/breakwater-k8s/breakwater/webhook/register"

	"github.com/spf13/pflag"
)

const staticHelp = `

With --static DIR the command writes the configuration to files that kube-apiserver reads itself, instead of printing it. No API client can
change or delete the content of these files, and they stay in force if the etcd of the cluster loses all webhook configurations. This needs
Kubernetes 1.36 with the feature gate ManifestBasedAdmissionControlConfig, or 1.37, and access to the flags of kube-apiserver:

  breakwater webhook-config --static ./admission --static-path /etc/kubernetes/breakwater \
    --cell worker-1 --url https://breakwater.example:9443 --ca-bundle ca.crt

Run the command again with the same DIR to add the files of another cell, of --core or of --scheduling. If DIR contains an admission.yaml, the
command keeps its other settings. Apply the printed configuration as well: the condition Guarded of a Cell depends on it.`

const staticNextSteps = `
Copy the files to %s on each control plane node, and start each kube-apiserver with
  --admission-control-config-file=%s
  --feature-gates=ManifestBasedAdmissionControlConfig=true    (Kubernetes 1.36 only; 1.37 enables it by default)
`

// staticOptions are the options of files that kube-apiserver reads.
type staticOptions struct {
	folder string // folder to write to; empty prints the objects instead
	path   string // path of the same folder for kube-apiserver
}

func (s *staticOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.folder, "static", "", "write files that kube-apiserver reads itself to this `folder`, instead of printing the configuration")
	flags.StringVar(&s.path, "static-path", "", "absolute `path` of the folder of --static on the host of kube-apiserver (default: the path on this machine)")
}

func (s *staticOptions) complete() error {
	if s.folder == "" {
		if s.path != "" {
			return errors.New("--static-path needs --static: set the folder to write to")
		}
		return nil
	}
	if s.path == "" {
		absolute, err := filepath.Abs(s.folder)
		if err != nil {
			return fmt.Errorf("--static: %w", err)
		}
		s.path = filepath.ToSlash(absolute)
		return nil
	}
	if !path.IsAbs(s.path) {
		return fmt.Errorf("--static-path %q: want an absolute path", s.path)
	}
	return nil
}

// write writes the files of objects. It prints their names and the next steps to out.
func (s *staticOptions) write(out io.Writer, objects []any) error {
	existing, err := os.ReadFile(filepath.Join(s.folder, register.StaticConfigurationFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--static: %w", err)
	}
	files, err := register.StaticFiles(objects, s.path, existing)
	if err != nil {
		return fmt.Errorf("--static: %w", err)
	}
	for _, file := range files {
		name := filepath.Join(s.folder, filepath.FromSlash(file.Path))
		if err := replaceFile(name, file.Content); err != nil {
			return fmt.Errorf("--static: %w", err)
		}
		if _, err := fmt.Fprintln(out, "Wrote", name); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(out, staticNextSteps, s.path, path.Join(s.path, register.StaticConfigurationFile))
	return err
}

// replaceFile replaces a file atomically. kube-apiserver reads the folder when it changes: a truncated file would make it drop the
// webhooks for a moment.
func replaceFile(name string, content []byte) error {
	folder := filepath.Dir(name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	// kube-apiserver ignores files with extensions other than .yaml, .yml and .json.
	file, err := os.CreateTemp(folder, ".breakwater-*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) //nolint:errcheck // it no longer exists after the rename
	_, err = file.Write(content)
	// kube-apiserver may run as another user. The files contain no secrets.
	if err := errors.Join(err, file.Chmod(0o644), file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), name)
}
