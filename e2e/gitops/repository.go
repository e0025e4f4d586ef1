package gitops

import (
	"context"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Repository is a Git repository that Git serves over HTTP on the loopback interface.
type Repository struct {
	bareDir, workDir string
	server           *http.Server
	address          string
}

// NewRepository creates an empty repository in a folder, and starts its server.
func NewRepository(ctx context.Context, dir string) (*Repository, error) {
	r := &Repository{bareDir: filepath.Join(dir, "git", "cluster.git"), workDir: filepath.Join(dir, "work")}
	for _, arguments := range [][]string{
		{"init", "--quiet", "--bare", "--initial-branch=main", r.bareDir}, {"init", "--quiet", "--initial-branch=main", r.workDir},
	} {
		if _, err := runGit(ctx, dir, arguments...); err != nil {
			return nil, err
		}
	}
	programs, err := runGit(ctx, dir, "--exec-path")
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
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(r.bareDir), "GIT_HTTP_EXPORT_ALL=1"},
	})
	r.server, r.address = &http.Server{Handler: handler}, listener.Addr().String()
	go func() { _ = r.server.Serve(listener) }() // until Close
	return r, nil
}

// Close stops the server.
func (r *Repository) Close() { _ = r.server.Close() }

// URL returns the address from which clients clone.
func (r *Repository) URL() string { return "http://" + r.address + "/git/cluster.git" }

// runGit runs Git without the configuration of the machine and its user.
func runGit(ctx context.Context, dir string, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, "git", arguments...)
	command.Dir = dir
	command.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=team", "GIT_AUTHOR_EMAIL=team@example.com",
		"GIT_COMMITTER_NAME=team", "GIT_COMMITTER_EMAIL=team@example.com",
	}
	out, err := waitForOutput(command)
	return string(out), err
}

// Commit writes files, removes those whose content is empty, and pushes both as one commit.
func (r *Repository) Commit(ctx context.Context, subject string, files map[string]string) error {
	for name, content := range files {
		path := filepath.Join(r.workDir, name)
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
		{"add", "--all"}, {"commit", "--quiet", "--allow-empty", "--message", subject}, {"push", "--quiet", r.bareDir, "main"},
	} {
		if _, err := runGit(ctx, r.workDir, arguments...); err != nil {
			return err
		}
	}
	return nil
}

// Head returns the newest commit in the format of Flux's revisions.
func (r *Repository) Head(ctx context.Context) (string, error) {
	commit, err := runGit(ctx, r.workDir, "rev-parse", "HEAD")
	return "main@sha1:" + strings.TrimSpace(commit), err
}
