import { counted } from '../../../../src/model/counted.ts';
import {
  type Configuration,
  type ConfigurationProblem,
  type GatewayOfNode,
  getConfiguration,
  listGateways,
} from '../../api/operations.ts';
import type { Tone } from '../../parts/status.tsx';
import { href } from '../../router.ts';

/** Something that is wrong with a gateway. */
export interface GatewayProblem {
  readonly tone: Tone;
  readonly title: string;
  readonly text: string;
  readonly command: string;
  /** The first node that says so. */
  readonly node?: string | undefined;
  /** Where to look. */
  readonly link: string;
}

interface Kind {
  readonly tone: Tone;
  readonly title: string;
  /** Between the title and the names of the nodes. */
  readonly between?: string;
  readonly command: string;
  readonly page: string;
  readonly query?: Readonly<Record<string, string>>;
}

const STATUS = { tone: 'bad', command: 'trunkline status' } as const;
const IN_LOG = { ...STATUS, page: 'log', query: { of: 'gateway' } } as const;
const OF_CLUSTER = { between: ', seen by', command: 'trunkline nodes', page: 'cluster' } as const;
const CONFIGURATION = { command: 'trunkline check', page: 'configuration' } as const;
/** The page of the configuration has all. */
const MAX_LINES = 5;
const DEGRADED: Kind = { ...OF_CLUSTER, tone: 'warn', title: 'The cluster is degraded' };
/** What is not here shows in another way. */
const CONDITIONS: Readonly<Partial<Record<GatewayOfNode['conditions'][number]['name'], Kind>>> = {
  node_lost: { ...OF_CLUSTER, tone: 'bad', title: 'A node is gone' },
  disk_not_writable: { ...IN_LOG, title: 'The disk cannot be written' },
  memory_short: { ...IN_LOG, title: 'Memory is short' },
  processes_near_limit: {
    ...STATUS,
    title: 'There are nearly as many processes as allowed',
    page: 'servers',
  },
  sessions_near_limit: {
    ...STATUS,
    title: 'There are nearly as many sessions as allowed',
    page: 'sessions',
  },
};
const NOT_IN_FORCE: Kind = {
  tone: 'warn',
  title: 'Not everything that is configured is in force',
  command: 'trunkline status',
  page: 'configuration',
};

interface Said {
  readonly kind: Kind;
  readonly text: string;
}

type ReadGateway = GatewayOfNode & Pick<Configuration, 'problems' | 'warnings'>;

/** All gateways, each with what is wrong with its configuration. */
export async function readGateways() {
  const { gateways, silent = [] } = await listGateways();
  const read = async (gateway: GatewayOfNode): Promise<ReadGateway> => {
    const { problems, warnings } = await getConfiguration({ node: gateway.node ?? undefined });
    return { ...gateway, problems, warnings };
  };
  return { gateways: await Promise.all(gateways.map(read)), silent };
}

/** What all gateways say is wrong; what several say alike is said once, with their names. */
export function gatewayProblems(gateways: readonly ReadGateway[]): readonly GatewayProblem[] {
  return saidOnce(gateways, problemsOf);
}

/** What is doubtful in the files. */
export function configurationWarnings(gateways: readonly ReadGateway[]): readonly GatewayProblem[] {
  return saidOnce(gateways, ({ warnings }) => ofConfiguration(warnings, 'warn', 'warning'));
}

function saidOnce(
  gateways: readonly ReadGateway[],
  of: (gateway: ReadGateway) => readonly Said[],
): readonly GatewayProblem[] {
  const said = gateways.flatMap((gateway) => of(gateway).map((one) => ({ ...one, node: gateway.node })));
  const alike = Map.groupBy(said, ({ kind, text }) => `${kind.title} ${text}`);
  return [...alike.values()].map((same) => {
    const { kind, text } = same[0]!;
    const nodes = same.flatMap(({ node }) => node ?? []);
    const { tone, command, between = ' at', page, query } = kind;
    const title = nodes.length === 0 ? kind.title : `${kind.title}${between} ${nodes.join(', ')}`;
    const [node] = nodes;
    const link = href([page], { ...query, node: node ?? '' });
    return { tone, title, text, command, link, ...(node === undefined ? {} : { node }) };
  });
}

function problemsOf(gateway: ReadGateway): readonly Said[] {
  const { problems, desiredProblems, degraded, conditions } = gateway;
  return [
    ...ofConfiguration(problems, 'bad', 'mistake', '\nThe parts with a mistake stay as they were before.'),
    ...degraded.map((text) => ({ kind: DEGRADED, text })),
    ...conditions.flatMap(({ name, server, reason }) => {
      const kind = server === null ? CONDITIONS[name] : undefined;
      return kind === undefined ? [] : [{ kind, text: reason }];
    }),
    ...desiredProblems.map((text) => ({ kind: NOT_IN_FORCE, text })),
  ];
}

/** One line for each of the first, without the text of the file. */
function ofConfiguration(found: readonly ConfigurationProblem[], tone: Tone, word: string, end = ''): readonly Said[] {
  if (found.length === 0) return [];
  const lines = found
    .slice(0, MAX_LINES)
    .map(({ file, line, message, fix }) => `${file}${line === 0 ? '' : `:${line}`}: ${message}; fix: ${fix}`);
  const more = found.length - lines.length;
  const text = `${lines.join('\n')}${more === 0 ? '' : `\nand ${more} more`}${end}`;
  return [{ kind: { ...CONFIGURATION, tone, title: `The configuration has ${counted(found.length, word)}` }, text }];
}
