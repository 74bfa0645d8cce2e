import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import './table.css';

export interface Column<R> {
  readonly id: string;
  readonly title: string;
  /** A track of CSS grid, as `minmax(8rem, 1fr)`. */
  readonly width: string;
  readonly cell: (row: R) => ComponentChildren;
  /** Sorts by it when its title is pressed. */
  readonly order?: (row: R) => string | number;
  /** Not shown on narrow screens. */
  readonly wideOnly?: boolean;
  readonly align?: 'end';
}

export interface TableProps<R> {
  readonly label: string;
  readonly rows: readonly R[];
  readonly columns: readonly Column<R>[];
  readonly keyOf: (row: R) => string;
  /** Called by a click and by Enter. */
  readonly onOpen?: (row: R) => void;
  readonly selected?: string | undefined;
  readonly empty: ComponentChildren;
}

/** As in table.css. */
const ROW_PX = 36;
const BEYOND = 8;
const FIRST_HEIGHT = 600;

/** A table of any length: only the rows in sight are in the document. Arrow keys move, Enter opens. */
export function Table<R>({ label, rows, columns, keyOf, onOpen, selected, empty }: TableProps<R>) {
  const body = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const height = useSignal(FIRST_HEIGHT);
  const active = useSignal(0);
  const sort = useSignal<{ readonly id: string; readonly down: boolean } | null>(null);

  useLayoutEffect(() => {
    const element = body.current;
    if (element === null) return;
    // Another element than before the table was empty: it is not scrolled.
    top.value = element.scrollTop;
    const observer = new ResizeObserver(() => (height.value = element.clientHeight));
    observer.observe(element);
    return () => observer.disconnect();
  }, [rows.length === 0]);

  if (rows.length === 0) return <>{empty}</>;
  const shown = sorted(rows, columns, sort.value);
  const first = Math.max(0, Math.floor(top.value / ROW_PX) - BEYOND);
  const last = Math.min(shown.length, Math.ceil((top.value + height.value) / ROW_PX) + BEYOND);
  const tracks = {
    '--columns': columns.map(({ width }) => width).join(' '),
    '--narrow': columns
      .filter(({ wideOnly }) => wideOnly !== true)
      .map(({ width }) => width)
      .join(' '),
  };
  const move = (to: number): void => {
    const element = body.current!;
    active.value = Math.max(0, Math.min(shown.length - 1, to));
    const at = active.value * ROW_PX;
    if (at < element.scrollTop) element.scrollTop = at;
    else if (at + ROW_PX > element.scrollTop + element.clientHeight)
      element.scrollTop = at + ROW_PX - element.clientHeight;
  };
  const onKey = (event: KeyboardEvent): void => {
    const page = Math.max(1, Math.floor(height.value / ROW_PX) - 1);
    const steps: Readonly<Record<string, number>> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
    const step = steps[event.key];
    const row = shown[active.value];
    if (step !== undefined) move(active.value + step);
    else if (event.key === 'Home') move(0);
    else if (event.key === 'End') move(shown.length - 1);
    else if (event.key === 'Enter' && row !== undefined && event.target === event.currentTarget) onOpen?.(row);
    else return;
    event.preventDefault();
  };
  return (
    <div class="table" role="table" aria-label={label} aria-rowcount={shown.length + 1} style={tracks}>
      <div class="table-head" role="row" aria-rowindex={1}>
        {columns.map((column) => (
          <Head key={column.id} column={column} sort={sort.value} onSort={(next) => (sort.value = next)} />
        ))}
      </div>
      <div
        ref={body}
        class="table-body"
        role="rowgroup"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keyboard
        tabIndex={0}
        onKeyDown={onKey}
        onScroll={(event) => (top.value = event.currentTarget.scrollTop)}
      >
        <div class="table-space" role="presentation" style={{ height: `${shown.length * ROW_PX}px` }}>
          {shown.slice(first, last).map((row, at) => {
            const index = first + at;
            const key = keyOf(row);
            return (
              // biome-ignore lint/a11y/useKeyWithClickEvents: the body takes the keys of all rows
              <div
                key={key}
                role="row"
                aria-rowindex={index + 2}
                class={`table-row${index === active.value ? ' active' : ''}${key === selected ? ' selected' : ''}${onOpen === undefined ? '' : ' opens'}`}
                style={{ transform: `translateY(${index * ROW_PX}px)` }}
                onClick={() => {
                  active.value = index;
                  onOpen?.(row);
                }}
              >
                {columns.map((column) => (
                  <div key={column.id} role="cell" class={cellClass(column)}>
                    {column.cell(row)}
                  </div>
                ))}
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}

type Sort = { readonly id: string; readonly down: boolean } | null;

interface HeadProps<R> {
  readonly column: Column<R>;
  readonly sort: Sort;
  readonly onSort: (next: Sort) => void;
}

function Head<R>({ column, sort, onSort }: HeadProps<R>) {
  const { id, title, order } = column;
  const own = sort?.id === id ? sort : null;
  const direction = own === null ? 'none' : own.down ? 'descending' : 'ascending';
  return (
    <div role="columnheader" class={cellClass(column)} {...(order === undefined ? {} : { 'aria-sort': direction })}>
      {order === undefined ? (
        title
      ) : (
        <button
          type="button"
          class="plain"
          onClick={() => onSort(own?.down === true ? null : { id, down: own !== null })}
        >
          {title}
          <span aria-hidden="true">{own === null ? '' : own.down ? ' ↓' : ' ↑'}</span>
        </button>
      )}
    </div>
  );
}

function cellClass<R>({ wideOnly, align }: Column<R>): string {
  return `cell${wideOnly === true ? ' wide-only' : ''}${align === 'end' ? ' end' : ''}`;
}

function sorted<R>(rows: readonly R[], columns: readonly Column<R>[], sort: Sort): readonly R[] {
  const order = columns.find(({ id }) => id === sort?.id)?.order;
  if (order === undefined || sort === null) return rows;
  const sign = sort.down ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [one, other] = [order(a), order(b)];
    return one === other ? 0 : one < other ? -sign : sign;
  });
}
