package gitops_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// repository is a Git repository that Git itself serves over HTTP on the loopback interface, and the archives of its commits.
type repository struct {
	bare, work string
	server     *http.Server
	address    string

	mu       sync.Mutex
	archives map[string][]byte // by path
}

func newRepository(ctx context.Context, dir string) (*repository, error) {
	r := &repository{bare: filepath.Join(dir, "git", "cluster.git"), work: filepath.Join(dir, "work"), archives: map[string][]byte{}}
	for _, arguments := range [][]string{
		{"init", "--quiet", "--bare", "--initial-branch=main", r.bare}, {"init", "--quiet", "--initial-branch=main", r.work},
	} {
		if _, err := git(ctx, dir, arguments...); err != nil {
			return nil, err
		}
	}
	programs, err := git(ctx, dir, "--exec-path")
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	handler := http.NewServeMux()
	handler.Handle("/git/", &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(programs), "git-http-backend"), Root: "/git",
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(r.bare), "GIT_HTTP_EXPORT_ALL=1"},
	})
	handler.HandleFunc("/archives/", r.serveArchive)
	r.server, r.address = &http.Server{Handler: handler}, listener.Addr().String()
	go func() { _ = r.server.Serve(listener) }() // until stop
	return r, nil
}

func (r *repository) stop() { _ = r.server.Close() }

// url is where others clone from.
func (r *repository) url() string { return "http://" + r.address + "/git/cluster.git" }

// git runs Git without anything that the machine or its user configures.
func git(ctx context.Context, dir string, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, "git", arguments...)
	command.Dir = dir
	command.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=team", "GIT_AUTHOR_EMAIL=team@example.com",
		"GIT_COMMITTER_NAME=team", "GIT_COMMITTER_EMAIL=team@example.com",
	}
	out, err := finish(command)
	return string(out), err
}

// commit writes files, of which the empty are removed, and pushes them.
func (r *repository) commit(ctx context.Context, subject string, files map[string]string) error {
	for name, content := range files {
		path := filepath.Join(r.work, name)
		if content == "" {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return err
		}
	}
	for _, arguments := range [][]string{
		{"add", "--all"}, {"commit", "--quiet", "--allow-empty", "--message", subject}, {"push", "--quiet", r.bare, "main"},
	} {
		if _, err := git(ctx, r.work, arguments...); err != nil {
			return err
		}
	}
	return nil
}

// archive is a commit as the source-controller hands it to the kustomize-controller.
type archive struct {
	revision, path, url, digest string
	size                        int
}

// pull clones the repository as others do, over HTTP, and makes an archive of what it got.
func (r *repository) pull(ctx context.Context, url, branch string) (*archive, error) {
	clone, err := os.MkdirTemp("", "breakwater-clone-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(clone)
	if _, err := git(ctx, clone, "clone", "--quiet", "--depth=1", "--branch="+branch, url, "tree"); err != nil {
		return nil, err
	}
	commit, err := git(ctx, filepath.Join(clone, "tree"), "rev-parse", "HEAD")
	if err != nil {
		return nil, err
	}
	commit = strings.TrimSpace(commit)
	packed, err := pack(os.DirFS(filepath.Join(clone, "tree")))
	if err != nil {
		return nil, err
	}
	path := "archives/" + commit + ".tar.gz"
	r.mu.Lock()
	defer r.mu.Unlock()
	r.archives["/"+path] = packed
	return &archive{
		revision: branch + "@sha1:" + commit, path: path, url: "http://" + r.address + "/" + path,
		digest: fmt.Sprintf("sha256:%x", sha256.Sum256(packed)), size: len(packed),
	}, nil
}

func (r *repository) serveArchive(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	content, ok := r.archives[request.URL.Path]
	r.mu.Unlock()
	if !ok {
		http.NotFound(w, request)
		return
	}
	_, _ = w.Write(content) // who has gone does not mind
}

// pack makes a tar.gz of a tree, without what is Git's.
func pack(tree fs.FS) ([]byte, error) {
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	files := tar.NewWriter(compressed)
	err := fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && path == ".git" {
			return fs.SkipDir
		}
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(tree, path)
		if err != nil {
			return err
		}
		if err := files.WriteHeader(&tar.Header{Name: path, Mode: 0o644, Size: int64(len(content))}); err != nil {
			return err
		}
		_, err = files.Write(content)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := files.Close(); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}
