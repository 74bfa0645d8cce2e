import { useSignal } from '@preact/signals';
import { type ComponentChildren, Fragment } from 'preact';

const AT_ONCE = 20;

interface PagedProps<R> {
  /** What they are, in the plural. */
  readonly what: string;
  readonly rows: readonly R[];
  readonly keyOf: (row: R) => string;
  readonly show: (row: R) => ComponentChildren;
}

/** Rows too tall for a table: only so many of them are in the document. */
export function Paged<R>({ what, rows, keyOf, show }: PagedProps<R>) {
  const wanted = useSignal(0);
  const from = Math.min(wanted.value, Math.max(0, Math.ceil(rows.length / AT_ONCE) - 1) * AT_ONCE);
  const to = Math.min(from + AT_ONCE, rows.length);
  return (
    <>
      {rows.slice(from, to).map((row) => (
        <Fragment key={keyOf(row)}>{show(row)}</Fragment>
      ))}
      {rows.length <= AT_ONCE ? null : (
        <nav class="toolbar" aria-label={`More ${what}`}>
          <button type="button" disabled={from === 0} onClick={() => (wanted.value = from - AT_ONCE)}>
            Earlier {what}
          </button>
          <span>
            {from + 1}–{to} of {rows.length}
          </span>
          <button type="button" disabled={to === rows.length} onClick={() => (wanted.value = from + AT_ONCE)}>
            Later {what}
          </button>
        </nav>
      )}
    </>
  );
}
