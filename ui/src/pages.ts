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
  { path: 'servers', title: 'Servers', group: 'Operate', key: 's', load: () => import('./pages/servers.tsx') },
  { path: 'tools', title: 'Tools', group: 'Operate', key: 't', load: () => import('./pages/tools.tsx') },
  { path: 'playground', title: 'Playground', group: 'Operate', key: 'p', load: () => import('./pages/playground.tsx') },
  { path: 'timeline', title: 'Timeline', group: 'Operate', key: 'i', load: () => import('./pages/timeline.tsx') },
  { path: 'sessions', title: 'Sessions', group: 'Operate', key: 'e', load: () => import('./pages/sessions.tsx') },
  { path: 'tasks', title: 'Tasks', group: 'Operate', load: () => import('./pages/tasks.tsx') },
  { path: 'drift', title: 'Drift', group: 'Guard', key: 'd', load: () => import('./pages/drift.tsx') },
  { path: 'access', title: 'Access', group: 'Guard', key: 'a', load: () => import('./pages/access.tsx') },
  {
    path: 'connections',
    title: 'Connections',
    group: 'Guard',
    key: 'n',
    load: () => import('./pages/connections.tsx'),
  },
  { path: 'sign-in', title: 'Sign-in', group: 'Guard', load: () => import('./pages/sign-in.tsx') },
  { path: 'cluster', title: 'Cluster', group: 'System', load: () => import('./pages/cluster.tsx') },
  {
    path: 'configuration',
    title: 'Configuration',
    group: 'System',
    key: 'c',
    load: () => import('./pages/configuration.tsx'),
  },
  { path: 'log', title: 'Log', group: 'System', key: 'l', load: () => import('./pages/log.tsx') },
  { path: 'connect', title: 'Connect a client', group: 'System', load: () => import('./pages/connect.tsx') },
];
