// Texts to begin with. `labels`: those of models that were trained for such text; these examples come first.

const NEWS = ["PER", "ORG", "GPE", "LOC", "FAC", "PERSON"];
const LIFE = ["protein", "DNA", "RNA", "cell_line", "cell_type", "Protein", "gene"];

const EXAMPLES = [
  {
    name: "A spokesman",
    labels: NEWS,
    text: "U.S. State Department spokesman Richard Boucher said the talks would resume on Monday.",
  },
  {
    name: "Four levels",
    labels: NEWS,
    text: "The daughter of the chairman of the Bank of Malta has opened a restaurant in which nobody is allowed to speak. The mayor of Leeds, Harriet Boyle, was among the first guests.",
  },
  {
    name: "Names in names",
    labels: NEWS,
    text: "Doctors at St Mary's Hospital treated eleven passengers after the crash near Geneva Airport.\n\nThe Lincoln Memorial trust will repair the marble steps before the summer, the dean of the medical faculty at the University of Zurich told the London housing office.",
  },
  {
    name: "Same name, other thing",
    labels: NEWS,
    text: "Washington rejected the proposal from Jordan. Washington crossed the river at dawn. Jordan Pickett, the captain of Leeds United, will miss three matches, and Chelsea sold the young defender Marco Vidal to Valencia Football Club.",
  },
  {
    name: "Genes and proteins",
    labels: LIFE,
    text: "IL-2 gene expression and NF-kappa B activation through CD28 requires reactive oxygen production by 5-lipoxygenase in human T lymphocytes.",
  },
  {
    name: "A regulator",
    labels: LIFE,
    text: "The human interleukin-2 receptor alpha chain gene promoter contains a binding site for the transcription factor NF-AT in activated peripheral blood T cells.",
  },
  {
    name: "A contract",
    labels: [],
    text: "The board of the Amsterdam branch of Deutsche Bank AG appointed Marie Dubois, former head of the European Investment Fund, to oversee the sale of its Luxembourg subsidiary.",
  },
  {
    name: "A ward round",
    labels: [],
    text: "The patient was given 40 mg of intravenous furosemide for acute congestive heart failure after the left ventricular ejection fraction fell to 25%.",
  },
  {
    name: "Right to left",
    labels: [],
    text: "رئيس بلدية مدينة الإسكندرية زار متحف اللوفر في باريس يوم الاثنين.",
  },
];

/** Those that fit a model first. */
export function examplesFor(labels) {
  const known = new Set(labels);
  const fits = (one) => one.labels.filter((label) => known.has(label)).length > 0;
  return [...EXAMPLES.filter(fits), ...EXAMPLES.filter((one) => !fits(one))];
}
