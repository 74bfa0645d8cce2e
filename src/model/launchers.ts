/** A program that runs another one. */
export interface KnownLauncher {
  /** The product that installs it; absent if it is part of the system. */
  readonly comesWith?: string;
  /** It downloads the program unless it is cached: always, or if one of these words comes before the program's name. */
  readonly fetches?: true | readonly string[];
}

const LAUNCHERS: Readonly<Record<string, KnownLauncher>> = {
  npx: { comesWith: 'Node.js', fetches: true },
  npm: { comesWith: 'Node.js', fetches: ['exec', 'x'] },
  node: { comesWith: 'Node.js' },
  uvx: { comesWith: 'uv', fetches: true },
  uv: { comesWith: 'uv', fetches: ['run', 'tool'] },
  pipx: { comesWith: 'pipx', fetches: true },
  python: { comesWith: 'Python' },
  python3: { comesWith: 'Python' },
  bunx: { comesWith: 'Bun', fetches: true },
  bun: { comesWith: 'Bun', fetches: ['x'] },
  deno: { comesWith: 'Deno' },
  dnx: { comesWith: 'the .NET 10 SDK', fetches: true },
  pnpx: { comesWith: 'pnpm', fetches: true },
  pnpm: { comesWith: 'pnpm', fetches: ['dlx'] },
  yarn: { comesWith: 'Yarn', fetches: ['dlx'] },
  docker: { comesWith: 'Docker', fetches: ['run'] },
  podman: { comesWith: 'Podman', fetches: ['run'] },
  sh: {},
  bash: {},
};

/** Looks the program up by its name, without folder and Windows extension; null for a program that is not a known launcher. */
export function launcherOf(command: string): KnownLauncher | null {
  const name = /[^/\\]*$/.exec(command)![0].replace(/\.(?:cmd|exe)$/, '');
  return Object.hasOwn(LAUNCHERS, name) ? LAUNCHERS[name]! : null;
}
