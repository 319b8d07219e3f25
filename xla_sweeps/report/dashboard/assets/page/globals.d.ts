/** What the scripts get from outside, and the shapes that they share. Columns and `PACKAGE`: scripts/page_types.py. */

declare const Plot: any;
declare var xlaSweeps: any;

type View = import("./view.js").View;
type Rows = import("./data.js").Rows;
type Index = import("./view.js").Index;
type Choice = "model" | "scenario" | "baseline" | "candidate" | "origin";
type Sides = Record<"baseline" | "candidate", string>;
type Look = "sort" | "tab" | "place" | "columns" | "at";
type State = import("./state.js").State & Record<Choice | Look, string> & Record<"verdict" | "price", Set<string>>;
type Facet = Partial<Record<"unit" | "before" | "any" | "blank" | "words", string>> & { isSwitch?: boolean } & { column: TextColumn | NumberColumn; title: string };

/** A row's columns; a number that is missing is NaN. */
type Row = Record<TextColumn, string> & Record<NumberColumn, number> & { place: number };
type Column = { data: Uint32Array | Float32Array; values?: string[] };
type Codes = { data: Uint32Array; values: string[] };
type Verdict = "faster" | "equivalent" | "ambiguous" | "slower" | "failed" | "not_measured";
type Theme = Record<"text" | "quiet" | "line" | "panel" | "band" | Verdict, string>;

type Tag<T> = T extends keyof HTMLElementTagNameMap ? HTMLElementTagNameMap[T] : HTMLElement;
type Tagged<N> = N extends `${infer T}.${string}` ? Tag<T> : Tag<N>;
type Child = Node | string | number | false | null | undefined | Child[];
/** A column of a table: its title, and the cell of an item. */
type TableColumn<T> = [title: string, cell: (item: T) => Child];

/** What a chart draws from a view: `chart` says what each part is. */
type Words = string | false | 0 | null | undefined;
type LegendEntry = { mark?: string; colour?: string; text: string; isVerdict?: boolean };
type Drawn = { finding: string; subject?: string; legend?: LegendEntry[]; how?: string; note?: Words | Words[] } & Drawing;
type Drawing = { plot: any; sheets?: () => any[]; tip: (item: any) => Words[]; click?: (item: any) => void };
type PanelLook = { follows?: string[]; worth?: (view: View) => boolean };
type Chart = { build: (view: View, theme: Theme, width: number) => Drawn; table: (view: View) => Node; chips?: Node } & PanelLook;
type Panel = Required<PanelLook> &
  { element: HTMLElement; draw: (view: View) => void; near: boolean; stale: boolean; timer?: number };
