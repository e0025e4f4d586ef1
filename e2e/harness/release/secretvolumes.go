package release

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	corelisters "k8s.io/client-go/listers/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// secretVolumes are the Secrets that a pod mounts.
type secretVolumes struct {
	// secrets reads from a watch.
	secrets corelisters.SecretNamespaceLister
	// mounts are by the name of the Secret.
	mounts map[string]secretMount
}

// secretMount is one mounted Secret.
type secretMount struct {
	folder string
	// items are the keys that it needs. Empty: all that the Secret has.
	items []corev1.KeyToPath
}

// errIncomplete means that a Secret lacks a key that a pod needs, as before the component certificates has filled it.
var errIncomplete = errors.New("the Secret lacks a key")

// secretVolumes returns the Secrets that the first container of a pod mounts. Its file system begins at root.
func (k *Kubelet) secretVolumes(p *corev1.Pod, root string) secretVolumes {
	v := secretVolumes{secrets: k.secrets.Secrets(p.Namespace), mounts: map[string]secretMount{}}
	for _, volume := range p.Spec.Volumes {
		for _, mount := range p.Spec.Containers[0].VolumeMounts {
			if volume.Secret != nil && mount.Name == volume.Name {
				v.mounts[volume.Secret.SecretName] = secretMount{folder: filepath.Join(root, mount.MountPath), items: volume.Secret.Items}
			}
		}
	}
	return v
}

// mount writes the Secrets to files once all of them exist, with all keys that the pod needs.
func (v secretVolumes) mount(ctx context.Context) error {
	missing := maps.Clone(v.mounts)
	return wait.PollUntilContextCancel(ctx, pollInterval, true, func(context.Context) (bool, error) {
		for name, mount := range missing {
			err := v.write(name, mount)
			if err == nil {
				delete(missing, name)
			} else if client.IgnoreNotFound(err) != nil && !errors.Is(err, errIncomplete) {
				return false, err
			}
		}
		return len(missing) == 0, nil
	})
}

// update writes the files again when their Secrets change, until the pod ends.
func (v secretVolumes) update(ctx context.Context) {
	_ = wait.PollUntilContextCancel(ctx, pollInterval, false, func(context.Context) (bool, error) { // ends with ctx
		for name, mount := range v.mounts {
			_ = v.write(name, mount) // A kubelet keeps the files of a deleted Secret, and tries again.
		}
		return false, nil
	})
}

// write writes the values of a Secret unless the files have them. Like a kubelet, it replaces all files of a Secret at once: folder is a
// symbolic link to the newest directory.
func (v secretVolumes) write(name string, mount secretMount) error {
	secret, err := v.secrets.Get(name)
	if err != nil {
		return err
	}
	files, err := mount.files(secret.Data)
	if err != nil {
		return err
	}
	folder := mount.folder
	newest := folder + ".." + secret.ResourceVersion
	old, err := os.Readlink(folder)
	if old == newest {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(newest, 0o700); err != nil {
		return err
	}
	for path, content := range files {
		if err := os.WriteFile(filepath.Join(newest, path), content, 0o600); err != nil {
			return err
		}
	}
	link := newest + ".link"
	if err := os.Symlink(newest, link); err != nil {
		return err
	}
	if err := os.Rename(link, folder); err != nil {
		return err
	}
	if old == "" {
		return nil
	}
	return os.RemoveAll(old)
}

// files returns the files of the mount by path, or errIncomplete.
func (m secretMount) files(data map[string][]byte) (map[string][]byte, error) {
	if len(m.items) == 0 {
		return data, nil
	}
	files := map[string][]byte{}
	for _, item := range m.items {
		content, ok := data[item.Key]
		if !ok {
			return nil, fmt.Errorf("%w: %s", errIncomplete, item.Key)
		}
		files[item.Path] = content
	}
	return files, nil
}
