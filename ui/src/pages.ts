import type { ComponentType } from 'preact';

export type PageGroup = 'Operate' | 'Guard' | 'System';

export interface Page {
  /** The first segment of its address; empty for the overview. */
  readonly path: string;
  readonly title: string;
  readonly group: PageGroup;
  /** Pressed after `g` it leads here. */
  readonly key?: string;
  readonly load: () => Promise<{ readonly default: ComponentType }>;
}

/** In the order of the navigation. */
export const PAGES: readonly Page[] = [
  { path: '', title: 'Overview', group: 'Operate', key: 'o', load: () => import('./pages/overview.tsx') },
  { path: 'timeline', title: 'Timeline', group: 'Operate', key: 'i', load: () => import('./pages/timeline.tsx') },
];
