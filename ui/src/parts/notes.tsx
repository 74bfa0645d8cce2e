import type { ComponentChildren } from 'preact';
import type { Reading } from './reading.ts';
import { errorText } from './toasts.tsx';

/** Something could not be read: what, why, and a way to try it again. */
export function Failure({ what, error, again }: { what: string; error: unknown; again?: () => void }) {
  return (
    <div class="note tone-bad" role="alert">
      <h2>{what}</h2>
      <pre>{errorText(error)}</pre>
      {again === undefined ? null : (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}

/** In the place of a list that was not read yet: that it is being read, or why it cannot be. */
export function Unread({ of, what }: { of: Pick<Reading<unknown>, 'error' | 'again'>; what: string }) {
  if (of.error.value === null) return <Loading what={what} />;
  return <Failure what={`The ${what} could not be read`} error={of.error.value} again={of.again} />;
}

/** There is nothing of this kind: why, and what makes some. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="note">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** What the address names is not there any more, or never was. */
export function Gone({ what, children }: { what: string; children: ComponentChildren }) {
  return (
    <div class="note" role="status">
      <h2>{what} is not there</h2>
      <p>{children}</p>
    </div>
  );
}

/** A list of all nodes has nothing of these. */
export function NotAnswered({ nodes = [], again }: { nodes?: readonly string[] | undefined; again: () => void }) {
  if (nodes.length === 0) return null;
  return (
    <p class="tone-warn" role="status">
      No answer from {nodes.join(', ')}{' '}
      <button type="button" onClick={again}>
        Read again
      </button>
    </p>
  );
}

export function Loading({ what }: { what: string }) {
  return (
    <p class="loading" role="status">
      <span class="spinner" aria-hidden="true" /> Loading {what}…
    </p>
  );
}
