/** Bounds of the operation-duration histograms, in seconds (OpenTelemetry MCP semantic conventions). */
const DURATION_BUCKETS: readonly number[] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300];

/** One labelled series of a counter or gauge. Keep a reference: looking a series up is expensive, adding to it is not. */
export class Series {
  value = 0;

  add(amount = 1): void {
    this.value += amount;
  }

  set(value: number): void {
    this.value = value;
  }
}

export class Histogram {
  readonly bounds: readonly number[];
  readonly #counts: Float64Array;
  #sum = 0;
  #count = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.#counts = new Float64Array(bounds.length);
  }

  get count(): number {
    return this.#count;
  }

  get sum(): number {
    return this.#sum;
  }

  /** The count of each bucket; the last one is for values above all bounds. */
  get counts(): readonly number[] {
    const counts = [...this.#counts];
    return [...counts, this.#count - counts.reduce((sum, one) => sum + one, 0)];
  }

  observe(value: number): void {
    this.#sum += value;
    this.#count++;
    for (let i = 0; i < this.bounds.length; i++) {
      if (value <= this.bounds[i]!) {
        this.#counts[i]!++;
        return;
      }
    }
  }

  *lines(name: string, labels: string): Iterable<string> {
    const separator = labels === '' ? '' : ',';
    let cumulative = 0;
    for (let i = 0; i < this.bounds.length; i++) {
      cumulative += this.#counts[i]!;
      yield `${name}_bucket{${labels}${separator}le="${this.bounds[i]}"} ${cumulative}`;
    }
    yield `${name}_bucket{${labels}${separator}le="+Inf"} ${this.#count}`;
    yield `${name}_sum${braced(labels)} ${this.#sum}`;
    yield `${name}_count${braced(labels)} ${this.#count}`;
  }
}

/**
 * Series of one counter or histogram, which keep theirs for the life of the process. Combinations beyond share one series, as
 * with the cardinality limit of OpenTelemetry. Gauges and summaries show what there is, which has bounds of its own.
 */
export const MAX_SERIES = 20_000;
/** Each label of that series. */
export const OTHER = '_OTHER';

type ByValues<T> = Map<string, T | ByValues<T>>;

/** A metric with label names; `of` returns the series of one combination of values, created on first use. */
export class Metric<T extends Series | Histogram> {
  readonly name: string;
  readonly help: string;
  readonly type: 'counter' | 'gauge' | 'histogram' | 'summary';
  readonly labelNames: readonly string[];
  readonly #make: () => T;
  readonly #series: (readonly [values: readonly string[], series: T])[] = [];
  /** The same series by label values, one map level per label: finding a series must not build its text. */
  readonly #byValues: ByValues<T> = new Map();

  constructor(name: string, help: string, type: Metric<T>['type'], labelNames: readonly string[], make: () => T) {
    this.name = name;
    this.help = help;
    this.type = type;
    this.labelNames = labelNames;
    this.#make = make;
  }

  of(...values: readonly string[]): T {
    const last = this.labelNames.length - 1;
    let level: ByValues<T> | undefined = this.#byValues;
    for (let i = 0; i < last && level !== undefined; i++) level = level.get(values[i] ?? '') as ByValues<T> | undefined;
    return (level?.get(values[last] ?? '') as T | undefined) ?? this.#added(values);
  }

  #added(wanted: readonly string[]): T {
    const isFull = this.#series.length >= MAX_SERIES && (this.type === 'counter' || this.type === 'histogram');
    const values = this.labelNames.map((_, i) => (isFull ? OTHER : (wanted[i] ?? '')));
    const level = values
      .slice(0, -1)
      .reduce((at, value) => madeIn(at, value, () => new Map()) as ByValues<T>, this.#byValues);
    return madeIn(level, values.at(-1) ?? '', () => {
      const series = this.#make();
      this.#series.push([values, series]);
      return series;
    }) as T;
  }

  #text(values: readonly string[]): string {
    return this.labelNames.map((label, i) => `${label}="${escapeLabel(values[i] ?? '')}"`).join(',');
  }

  /** Removes all series, so that a gauge shows only what is set afterwards. */
  clear(): void {
    this.#series.length = 0;
    this.#byValues.clear();
  }

  /** The series with their label values. */
  series(): Iterable<readonly [readonly string[], T]> {
    return this.#series;
  }

  *lines(): Iterable<string> {
    for (const [values, series] of this.#series) {
      const labels = this.#text(values);
      if (series instanceof Histogram) yield* series.lines(this.name, labels);
      else yield `${this.name}${braced(labels)} ${series.value}`;
    }
  }
}

/**
 * The metrics of one process, in Prometheus text form. Names are part of the public surface and pinned by a test.
 * `onScrape` handlers update gauges that mirror state, so that no code counts twice.
 */
export class Metrics {
  readonly #families = new Map<string, Metric<Series | Histogram>>();
  readonly #scrapers: (() => void)[] = [];

  counter(name: string, help: string, labelNames: readonly string[] = []): Metric<Series> {
    return this.#register(new Metric(name, help, 'counter', labelNames, () => new Series()));
  }

  gauge(name: string, help: string, labelNames: readonly string[] = []): Metric<Series> {
    return this.#register(new Metric(name, help, 'gauge', labelNames, () => new Series()));
  }

  /** Precomputed quantiles; the last label is `quantile`. */
  summary(name: string, help: string, labelNames: readonly string[]): Metric<Series> {
    return this.#register(new Metric(name, help, 'summary', labelNames, () => new Series()));
  }

  histogram(
    name: string,
    help: string,
    labelNames: readonly string[] = [],
    bounds = DURATION_BUCKETS,
  ): Metric<Histogram> {
    return this.#register(new Metric(name, help, 'histogram', labelNames, () => new Histogram(bounds)));
  }

  onScrape(handler: () => void): void {
    this.#scrapers.push(handler);
  }

  exposition(): string {
    const lines: string[] = [];
    for (const family of this.families()) {
      lines.push(`# HELP ${family.name} ${family.help}`, `# TYPE ${family.name} ${family.type}`, ...family.lines());
    }
    return `${lines.join('\n')}\n`;
  }

  /** The metrics with current values. */
  families(): Iterable<Metric<Series | Histogram>> {
    for (const scrape of this.#scrapers) scrape();
    return this.#families.values();
  }

  /** Registering a name again returns the same metric, so that modules that count the same thing share it. */
  #register<T extends Series | Histogram>(metric: Metric<T>): Metric<T> {
    const known = this.#families.get(metric.name) ?? metric;
    this.#families.set(metric.name, known);
    return known as Metric<T>;
  }
}

/** Returns the value of the key, made if it is missing. */
export function madeIn<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  let value = map.get(key);
  if (value === undefined) map.set(key, (value = make()));
  return value;
}

function braced(labels: string): string {
  return labels === '' ? '' : `{${labels}}`;
}

function escapeLabel(value: string): string {
  return value.replace(/[\\"\n]/g, (c) => (c === '\n' ? '\\n' : `\\${c}`));
}
