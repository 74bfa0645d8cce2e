import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useId, useLayoutEffect, useRef } from 'preact/hooks';
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

interface TableProps<R> {
  readonly label: string;
  readonly rows: readonly R[];
  readonly columns: readonly Column<R>[];
  readonly keyOf: (row: R) => string;
  /** Called by a click and by Enter. */
  readonly onOpen?: (row: R) => void;
  readonly selected?: string | undefined;
  readonly empty: ComponentChildren;
}

/** As in table.css; the head has the same height. */
const ROW_PX = 36;
const BEYOND = 8;
const FIRST_HEIGHT = 600;

/** A row by its key, and where it was: rows come and go while it is chosen. */
interface Place {
  readonly key: string;
  readonly index: number;
}

/**
 * A table of any length: only the rows in sight are in the document. One whose rows open is a grid with the focus on it:
 * arrow keys move its active row, Enter opens that.
 */
export function Table<R>({ label, rows, columns, keyOf, onOpen, selected, empty }: TableProps<R>) {
  const box = useRef<HTMLDivElement>(null);
  const id = useId();
  const top = useSignal(0);
  const height = useSignal(FIRST_HEIGHT);
  const place = useSignal<Place | null>(null);
  const sort = useSignal<Sort>(null);

  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    // Another element than before the table was empty: it is not scrolled.
    top.value = element.scrollTop;
    const observer = new ResizeObserver(() => (height.value = element.clientHeight - ROW_PX));
    observer.observe(element);
    return () => observer.disconnect();
  }, [rows.length === 0]);

  if (rows.length === 0) return <>{empty}</>;
  const shown = sorted(rows, columns, sort.value);
  const first = Math.max(0, Math.floor(top.value / ROW_PX) - BEYOND);
  const last = Math.min(shown.length, Math.ceil((top.value + height.value) / ROW_PX) + BEYOND);
  const opens = onOpen !== undefined;
  const active = opens ? indexOf(place.value, shown, keyOf) : -1;
  const rowId = (index: number): string => `${id}-${index}`;
  const tracks = {
    '--columns': columns.map(({ width }) => width).join(' '),
    '--narrow': columns
      .filter(({ wideOnly }) => wideOnly !== true)
      .map(({ width }) => width)
      .join(' '),
  };
  const move = (to: number): void => {
    const element = box.current!;
    const index = Math.max(0, Math.min(shown.length - 1, to));
    place.value = { key: keyOf(shown[index]!), index };
    const at = index * ROW_PX;
    if (at < element.scrollTop) element.scrollTop = at;
    else if (at + ROW_PX > element.scrollTop + height.value) element.scrollTop = at + ROW_PX - height.value;
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.target !== event.currentTarget) return;
    const page = Math.max(1, Math.floor(height.value / ROW_PX) - 1);
    const steps: Readonly<Record<string, number>> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
    const step = steps[event.key];
    if (step !== undefined) move(active + step);
    else if (event.key === 'Home') move(0);
    else if (event.key === 'End') move(shown.length - 1);
    else if (event.key === 'Enter') onOpen?.(shown[active]!);
    else return;
    event.preventDefault();
  };
  const inSight = active >= first && active < last;
  const kind = opens
    ? { role: 'grid' as const, 'aria-activedescendant': inSight ? rowId(active) : undefined, onKeyDown: onKey }
    : { role: 'table' as const };
  // What scrolls has to be reached by keyboard.
  const attributes = { ...kind, 'aria-label': label, 'aria-rowcount': shown.length + 1, tabIndex: 0, style: tracks };
  return (
    <div ref={box} class="table" onScroll={(event) => (top.value = event.currentTarget.scrollTop)} {...attributes}>
      <div class="table-head" role="row" aria-rowindex={1}>
        {columns.map((column) => (
          <Head key={column.id} column={column} sort={sort.value} onSort={(next) => (sort.value = next)} />
        ))}
      </div>
      <div class="table-space" role="rowgroup" style={{ height: `${shown.length * ROW_PX}px` }}>
        {shown.slice(first, last).map((row, at) => {
          const index = first + at;
          const key = keyOf(row);
          return (
            // biome-ignore lint/a11y/useKeyWithClickEvents: the grid takes the keys of all rows
            <div
              key={key}
              id={rowId(index)}
              role="row"
              aria-rowindex={index + 2}
              aria-selected={opens ? key === selected : undefined}
              class={`table-row${index === active ? ' active' : ''}${opens ? ' opens' : ''}`}
              style={{ transform: `translateY(${index * ROW_PX}px)` }}
              onClick={() => {
                place.value = { key, index };
                onOpen?.(row);
              }}
            >
              {columns.map((column) => (
                <div key={column.id} role={opens ? 'gridcell' : 'cell'} class={cellClass(column)}>
                  {column.cell(row)}
                </div>
              ))}
            </div>
          );
        })}
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

/** Where the row is now; where it is gone, the one in its place. */
function indexOf<R>(place: Place | null, rows: readonly R[], keyOf: (row: R) => string): number {
  if (place === null) return 0;
  const { key, index } = place;
  const there = rows[index];
  if (there !== undefined && keyOf(there) === key) return index;
  const found = rows.findIndex((row) => keyOf(row) === key);
  return found >= 0 ? found : Math.min(index, rows.length - 1);
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
