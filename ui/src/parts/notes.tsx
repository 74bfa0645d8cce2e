import type { ComponentChildren } from 'preact';
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

export function Loading({ what }: { what: string }) {
  return (
    <p class="loading" role="status">
      <span class="spinner" aria-hidden="true" /> Loading {what}…
    </p>
  );
}
