package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
)

const (
	// maxTokenBytes is the maximum length of a token that is sent to an API server.
	maxTokenBytes = 16 << 10
	// reviewTimeout is the timeout of one review. maxReviews is the maximum number of concurrent reviews.
	reviewTimeout = 10 * time.Second
	maxReviews    = 16
	// maxFirstReviews is the maximum number of additional concurrent reviews of tokens that have not admitted a client yet.
	maxFirstReviews = 4
	// answerLifetime is how long an answer is remembered: while the API server is known to be unreachable it stays valid.
	answerLifetime = time.Hour
	// maxTokens and maxPermissions limit the caches.
	maxTokens      = 4_096
	maxPermissions = 65_536
)

var (
	// ErrUnauthenticated means that the API server rejects the token as invalid or expired.
	ErrUnauthenticated = errors.New("the API server rejected the token")
	// ErrUnreachable means that the API server is unreachable and has not answered this question before.
	ErrUnreachable = errors.New("the API server is unreachable")
)

// Reviews asks a core's API server for the identity and the permissions of users. Use NewReviews.
type Reviews struct {
	// Unreachable reports whether the API server is known to be unreachable. Its last answers then hold for at most an hour, and it is not
	// asked: visitors see the data from before the outage that they could see then. nil means never.
	Unreachable func() bool
	// Self reports whether the only visitor is the user of the client. The reviews are then those that every user may create.
	Self bool

	client   kubernetes.Interface
	lifetime time.Duration
	now      func() time.Time
	// accepted has the identities of accepted tokens. rejected has the other tokens: however many there are, they displace no accepted one.
	accepted, rejected, permissions *utilcache.LRUExpireCache
	inFlight                        singleflight.Group
	// slots limits reviews for visitors who were admitted before, and first those for others: sign-ins do not delay open sessions.
	slots, firstSlots chan struct{}
}

// answer is an answer of the API server. It counts until a time, and later only while the API server is unreachable.
type answer[Value any] struct {
	value Value
	until time.Time
}

type permissionKey struct {
	who        [sha256.Size]byte
	permission Permission
}

// clock implements utilcache.Clock.
type clock func() time.Time

func (c clock) Now() time.Time { return c() }

// recall returns the last answer to a question. It fails if the API server has not answered it within answerLifetime. isCurrent reports whether the
// answer still counts.
func recall[Value any](r *Reviews, answers *utilcache.LRUExpireCache, question any) (value Value, isCurrent, ok bool) {
	stored, ok := answers.Get(question)
	if !ok {
		return value, false, false
	}
	a, ok := stored.(answer[Value])
	return a.value, r.now().Before(a.until) || r.unreachable(), ok
}

func remember[Value any](r *Reviews, answers *utilcache.LRUExpireCache, question any, value Value) {
	answers.Add(question, answer[Value]{value, r.now().Add(r.lifetime)}, answerLifetime)
}

func (r *Reviews) unreachable() bool { return r.Unreachable != nil && r.Unreachable() }

// NewReviews returns Reviews that cache the answers of the API server for lifetime.
func NewReviews(client kubernetes.Interface, lifetime time.Duration, now func() time.Time) *Reviews {
	return &Reviews{
		client: client, lifetime: lifetime, now: now, slots: make(chan struct{}, maxReviews), firstSlots: make(chan struct{}, maxFirstReviews),
		accepted:    utilcache.NewLRUExpireCacheWithClock(maxTokens, clock(now)),
		rejected:    utilcache.NewLRUExpireCacheWithClock(maxTokens, clock(now)),
		permissions: utilcache.NewLRUExpireCacheWithClock(maxPermissions, clock(now)),
	}
}

// IsAccepted reports whether a review of a token is not a guess: the API server has answered recently, or has accepted the token within the
// last hour.
func (r *Reviews) IsAccepted(token string) bool {
	key := sha256.Sum256([]byte(token))
	_, _, isAccepted := recall[Identity](r, r.accepted, key)
	_, isRejected, _ := recall[struct{}](r, r.rejected, key)
	return isAccepted || isRejected
}

// Authenticate returns the identity of a previously admitted visitor by its token. The error is ErrUnauthenticated, or a failure of the API server to
// answer.
func (r *Reviews) Authenticate(ctx context.Context, token string) (Identity, error) {
	return r.authenticate(ctx, token, r.slots)
}

// AuthenticateFirst is like Authenticate, for a token that has not admitted a client yet.
func (r *Reviews) AuthenticateFirst(ctx context.Context, token string) (Identity, error) {
	return r.authenticate(ctx, token, r.firstSlots)
}

func (r *Reviews) authenticate(ctx context.Context, token string, turns chan struct{}) (Identity, error) {
	if token == "" || len(token) > maxTokenBytes {
		return Identity{}, ErrUnauthenticated
	}
	key := sha256.Sum256([]byte(token))
	if who, isCurrent, _ := recall[Identity](r, r.accepted, key); isCurrent {
		return who, nil
	}
	if _, isCurrent, _ := recall[struct{}](r, r.rejected, key); isCurrent {
		return Identity{}, ErrUnauthenticated
	}
	if r.unreachable() {
		return Identity{}, ErrUnreachable
	}
	got, err := r.doReview(ctx, turns, "token "+string(key[:]), func(ctx context.Context) (any, error) { return r.reviewToken(ctx, key, token) })
	if err != nil {
		return Identity{}, fmt.Errorf("review a token: %w", err)
	}
	return got.(Identity), nil
}

// reviewToken asks the API server about a token. The error is ErrUnauthenticated if it is rejected.
func (r *Reviews) reviewToken(ctx context.Context, key [sha256.Size]byte, token string) (Identity, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	review, err := r.client.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return Identity{}, err
	}
	if !review.Status.Authenticated || review.Status.User.Username == "" {
		r.accepted.Remove(key)
		remember(r, r.rejected, key, struct{}{})
		return Identity{}, ErrUnauthenticated
	}
	who := identify(review.Status.User)
	r.rejected.Remove(key)
	remember(r, r.accepted, key, who)
	return who, nil
}

// IsAllowed reports whether a user has a permission. The error is a failure of the API server to answer.
func (r *Reviews) IsAllowed(ctx context.Context, who Identity, right Permission) (bool, error) {
	key := permissionKey{who.key, right}
	if may, isCurrent, _ := recall[bool](r, r.permissions, key); isCurrent {
		return may, nil
	}
	if r.unreachable() {
		return false, ErrUnreachable
	}
	flight := fmt.Sprintf("right %s %q", who.key[:], right)
	got, err := r.doReview(ctx, r.slots, flight, func(ctx context.Context) (any, error) {
		status, err := r.reviewPermission(ctx, who, right)
		if err != nil {
			return false, err
		}
		may := status.Allowed && !status.Denied
		remember(r, r.permissions, key, may)
		return may, nil
	})
	if err != nil {
		return false, fmt.Errorf("review a permission: %w", err)
	}
	return got.(bool), nil
}

func (r *Reviews) reviewPermission(ctx context.Context, who Identity, right Permission) (authorizationv1.SubjectAccessReviewStatus, error) {
	if r.Self {
		spec := authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: right.attributes()}
		review, err := r.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
		if err != nil {
			return authorizationv1.SubjectAccessReviewStatus{}, err
		}
		return review.Status, nil
	}
	review, err := r.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, right.accessReview(who), metav1.CreateOptions{})
	if err != nil {
		return authorizationv1.SubjectAccessReviewStatus{}, err
	}
	return review.Status, nil
}

// doReview merges concurrent reviews with the same key into one. A caller whose context ends stops waiting.
func (r *Reviews) doReview(ctx context.Context, turns chan struct{}, key string, ask func(context.Context) (any, error)) (any, error) {
	result := r.inFlight.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
		defer cancel()
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return ask(ctx)
	})
	select {
	case got := <-result:
		return got.Val, got.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
